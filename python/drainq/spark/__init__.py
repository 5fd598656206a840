"""drainq on Spark. Nothing here is imported, and no Java looked for, before it is used."""
