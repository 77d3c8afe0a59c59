"""The archive: what the query judges, batch by batch, as Parquet tables that other tools read."""
