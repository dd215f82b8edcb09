"""Turn bytes into text, text into documents, and documents into chunks."""
