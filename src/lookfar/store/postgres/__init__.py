"""The same store on a PostgreSQL server: for libraries that one machine does not hold."""
