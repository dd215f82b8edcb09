"""What Lookfar itself writes for people: files of theirs, changed so that nothing is lost."""
