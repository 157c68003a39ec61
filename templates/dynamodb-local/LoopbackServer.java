import java.lang.reflect.Field;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import software.amazon.dynamodb.services.local.main.ServerRunner;
import software.amazon.dynamodb.services.local.server.DynamoDBProxyServer;

/**
 * Starts Amazon DynamoDB Local on 127.0.0.1 only. Its own main class listens on every interface, has no option to
 * change that, and asks for no password: anyone on the same network could read and write the tables.
 */
final class LoopbackServer {
  public static void main(String[] args) {
    try {
      DynamoDBProxyServer proxy = ServerRunner.createServerFromCommandLineArgs(args);
      bindToLoopback(proxy);
      Runtime.getRuntime().addShutdownHook(new Thread(() -> stop(proxy)));
      // start() would print a taken port and leave the JVM running; safeStart() throws.
      proxy.safeStart();
      System.err.println("listening on 127.0.0.1");
      exitWithParent();
    } catch (Throwable failure) {
      for (Throwable each = failure; each != null; each = each.getCause()) System.err.println("error: " + each);
      System.exit(1);
    }
  }

  private static void bindToLoopback(DynamoDBProxyServer proxy) throws ReflectiveOperationException {
    Field field = DynamoDBProxyServer.class.getDeclaredField("server");
    field.setAccessible(true);
    ((ServerConnector) ((Server) field.get(proxy)).getConnectors()[0]).setHost("127.0.0.1");
  }

  /** Closes the database files in order when the JVM is asked to end. */
  private static void stop(DynamoDBProxyServer proxy) {
    try {
      proxy.stop();
    } catch (Exception failure) {
      System.err.println("error: " + failure);
    }
  }

  /** Standard input ends when the process that started us is gone, however it ended, also on Windows. */
  private static void exitWithParent() throws java.io.IOException {
    while (System.in.read() >= 0) {}
    System.exit(0);
  }
}
