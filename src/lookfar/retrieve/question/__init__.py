"""Understand a question: its phrases, terms, filters, spelling and intent."""
