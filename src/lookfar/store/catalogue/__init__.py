"""The catalogue: documents, generations, links and filters as SQL shared by both stores."""
