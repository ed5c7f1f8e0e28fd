"""The clock: seconds, bytes by link, joules and dollars of an algorithm's messages on a target, without learning."""
