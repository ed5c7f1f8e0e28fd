"""The accuracy page: tables and plots of the errors on measured rows."""
