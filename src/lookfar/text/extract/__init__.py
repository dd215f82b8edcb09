"""Turn the bytes of PDF, office, web, notebook and mail files into Markdown with places."""
