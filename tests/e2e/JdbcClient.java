import java.math.BigDecimal;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Types;
import java.util.Arrays;
import java.util.Properties;

/** Uses the JDBC driver of Flight SQL as tools do: `JdbcClient.java HOST:PORT TOKEN [ROOTS]`, answers as name=value. */
public class JdbcClient {
  static void tell(String name, Object value) {
    System.out.println(name + "=" + value);
  }

  static String rows(ResultSet rows) throws SQLException {
    StringBuilder text = new StringBuilder();
    int count = rows.getMetaData().getColumnCount();
    while (rows.next()) {
      for (int index = 1; index <= count; index++) {
        text.append(index > 1 ? "," : "").append(rows.getObject(index));
      }
      text.append(";");
    }
    rows.close();
    return text.toString();
  }

  static void statements(Connection connection, Statement statement) throws SQLException {
    String columns = "id BIGINT PRIMARY KEY, name VARCHAR, price DECIMAL(9,2), moment TIMESTAMP, day DATE";
    tell("create returns rows", statement.execute("CREATE TABLE j (" + columns + ")"));
    tell("create count", statement.getUpdateCount());
    String row = "(1, 'a', 1.5, TIMESTAMP '2024-01-01 00:00:00', DATE '2024-02-29')";
    tell("insert", statement.executeUpdate("INSERT INTO j VALUES " + row));
    try (PreparedStatement insert =
        connection.prepareStatement("INSERT INTO j (id, name, price) VALUES (?, ?, ?)")) {
      insert.setLong(1, 2);
      insert.setString(2, "b");
      insert.setBigDecimal(3, new BigDecimal("2.25"));
      tell("prepared insert", insert.executeUpdate());
      for (int id = 10; id < 13; id++) {
        insert.setLong(1, id);
        insert.setString(2, "x");
        insert.setNull(3, Types.DECIMAL);
        insert.addBatch();
      }
      tell("batch", Arrays.toString(insert.executeBatch()));
    }
    tell("rows", rows(statement.executeQuery("SELECT * FROM j WHERE id < 10 ORDER BY id")));
    try (PreparedStatement query = connection.prepareStatement("SELECT name FROM j WHERE id = ?")) {
      query.setLong(1, 2);
      tell("first look-up", rows(query.executeQuery()));
      query.setLong(1, 1);
      tell("second look-up", rows(query.executeQuery()));
    }
    tell("update", statement.executeUpdate("UPDATE j SET name = 'z' WHERE id >= 10"));
    try {
      statement.executeUpdate("INSERT INTO j (id) VALUES (1)");
    } catch (SQLException error) {
      tell("error names the key", error.getMessage().contains("PRIMARY KEY"));
    }
  }

  static void metadata(DatabaseMetaData metadata) throws SQLException {
    tell("product", metadata.getDatabaseProductName());
    tell("quote", metadata.getIdentifierQuoteString());
    tell("has transactions", metadata.supportsTransactions());
    try (ResultSet tables = metadata.getTables(null, "main", "j%", new String[] {"TABLE"})) {
      tables.next();
      tell("table", tables.getString("TABLE_NAME"));
    }
    StringBuilder columns = new StringBuilder();
    try (ResultSet found = metadata.getColumns(null, "main", "j", "%")) {
      while (found.next()) {
        columns.append(found.getString("COLUMN_NAME")).append(":").append(found.getInt("DATA_TYPE")).append(" ");
      }
    }
    tell("columns", columns);
    try (ResultSet keys = metadata.getPrimaryKeys(null, "main", "j")) {
      keys.next();
      tell("key", keys.getString("COLUMN_NAME"));
    }
    tell("schemas", rows(metadata.getSchemas()));
    tell("catalogs", rows(metadata.getCatalogs()));
  }

  static void cancel(Statement statement) throws Exception {
    Thread other =
        new Thread(
            () -> {
              try {
                Thread.sleep(1000);
                statement.cancel();
              } catch (Exception error) {
                tell("cancel failed", error);
              }
            });
    other.start();
    String endless = "SELECT sum(hash(a.range + b.range)) FROM range(10000000) a, range(100000) b";
    try {
      rows(statement.executeQuery(endless));
      tell("cancelled", false);
    } catch (SQLException error) {
      tell("cancelled", true);
    }
    other.join();
  }

  public static void main(String[] arguments) throws Exception {
    Properties properties = new Properties();
    properties.put("user", "anybody");
    properties.put("password", arguments[1]);
    properties.put("useEncryption", String.valueOf(arguments.length > 2));
    if (arguments.length > 2) {
      properties.put("tlsRootCerts", arguments[2]);
    }
    String url = "jdbc:arrow-flight-sql://" + arguments[0];
    try (Connection connection = DriverManager.getConnection(url, properties);
        Statement statement = connection.createStatement()) {
      statements(connection, statement);
      metadata(connection.getMetaData());
    }
    try (Connection connection = DriverManager.getConnection(url, properties);
        Statement statement = connection.createStatement()) {
      cancel(statement);
    }
  }
}
