"""Delta's own classes in the JVM: transactions on a table's log."""
