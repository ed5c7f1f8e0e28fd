"""Views drawn: on the terminal, as an HTML report in one file, as the data that the studio's page draws."""
