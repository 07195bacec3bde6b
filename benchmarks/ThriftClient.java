import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.Statement;

/** Runs each query that it reads against a Spark Thrift Server, and prints seconds and rows. */
public class ThriftClient {
    public static void main(String[] args) throws Exception {
        try (Connection connection = DriverManager.getConnection(args[0], "bench", "");
                BufferedReader queries = new BufferedReader(new InputStreamReader(System.in))) {
            System.out.println("ready");
            for (String query; (query = queries.readLine()) != null; ) {
                long begun = System.nanoTime();
                long rows = 0;
                try (Statement statement = connection.createStatement()) {
                    statement.setFetchSize(10_000);
                    ResultSet found = statement.executeQuery(query);
                    int columns = found.getMetaData().getColumnCount();
                    for (; found.next(); rows++) {
                        for (int column = 1; column <= columns; column++) {
                            found.getObject(column);
                        }
                    }
                }
                System.out.println("[" + (System.nanoTime() - begun) / 1e9 + ", " + rows + "]");
            }
        }
    }
}
