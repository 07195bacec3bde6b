"""Files and folders on the local disk or in an object store."""
