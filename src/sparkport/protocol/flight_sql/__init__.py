"""Flight SQL: commands, actions, sessions and metadata of ADBC, JDBC and ODBC drivers."""
