"""Find the packages that a project uses, at the versions that are installed on this machine."""
