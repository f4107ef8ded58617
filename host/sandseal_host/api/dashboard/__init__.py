"""The dashboard's files, served by `control_dashboard`."""
