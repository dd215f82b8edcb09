"""Edit users' documents and memories so that nothing is lost."""
