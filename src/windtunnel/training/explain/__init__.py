"""Why a step takes as long as it does: data sheet to second, assumptions, ignored settings, causes of a gap."""
