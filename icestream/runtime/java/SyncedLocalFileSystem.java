package icestream;

import com.globalmentor.apache.hadoop.fs.NakedLocalFileSystem;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.net.URI;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.security.AccessControlException;
import org.apache.hadoop.util.Progressable;

/**
 * The local file system, with files that are durable once they are closed: the content is synced, then the name in its
 * directory; directories that were made are synced into their parents, and new names of files into theirs. Iceberg closes every file of a commit before it
 * changes the catalog, so a catalog never names a file that a power failure can take away.
 *
 * <p>With {@code icestream.access.home} in its configuration it opens only files of the lake and below allowed directories,
 * by their real paths: a link, a wildcard or the metadata of a foreign table leads to no other file.
 *
 * <p>Built with {@code make synced-jar}.
 */
public class SyncedLocalFileSystem extends LocalFileSystem {

  public SyncedLocalFileSystem() {
    super(new Raw());
  }

  private static void syncDirectory(java.nio.file.Path directory) throws IOException {
    if (directory == null) {
      return;
    }
    try (FileChannel channel = FileChannel.open(directory, StandardOpenOption.READ)) {
      channel.force(true);
    }
  }

  /** Without checksum files: Iceberg has its own. */
  @Override
  public FSDataOutputStream create(
      Path path,
      FsPermission permission,
      boolean overwrite,
      int bufferSize,
      short replication,
      long blockSize,
      Progressable progress)
      throws IOException {
    return getRawFileSystem()
        .create(path, permission, overwrite, bufferSize, replication, blockSize, progress);
  }

  /** As the other: the raw one makes no checksum file, and syncs. */
  @Override
  public FSDataOutputStream createNonRecursive(
      Path path,
      FsPermission permission,
      boolean overwrite,
      int bufferSize,
      short replication,
      long blockSize,
      Progressable progress)
      throws IOException {
    return getRawFileSystem()
        .createNonRecursive(
            path, permission, overwrite, bufferSize, replication, blockSize, progress);
  }

  /** The directories whose files may be opened; null where everything may be. */
  private static class Access {
    private final java.nio.file.Path home;
    private final List<java.nio.file.Path> inHome = new ArrayList<>();
    private final List<java.nio.file.Path> outside = new ArrayList<>();

    Access(String home, String[] inHome, String[] allowed) throws IOException {
      this.home = resolve(Paths.get(home));
      for (String name : inHome) {
        this.inHome.add(this.home.resolve(name));
      }
      for (String name : allowed) {
        outside.add(resolve(Paths.get(name)));
      }
    }

    void check(java.nio.file.Path path) throws IOException {
      java.nio.file.Path real = resolve(path);
      List<java.nio.file.Path> roots = real.startsWith(home) ? inHome : outside;
      if (roots.stream().noneMatch(real::startsWith)) {
        throw new AccessControlException(path + " is not below an allowed directory");
      }
    }

    /** The path behind all links, as far as it exists; a link that leads nowhere is refused. */
    private static java.nio.file.Path resolve(java.nio.file.Path path) throws IOException {
      java.nio.file.Path at = path.toAbsolutePath().normalize();
      Deque<java.nio.file.Path> missing = new ArrayDeque<>();
      while (!Files.exists(at)) {
        if (Files.exists(at, LinkOption.NOFOLLOW_LINKS) || at.getParent() == null) {
          throw new FileNotFoundException(path + " leads nowhere");
        }
        missing.push(at.getFileName());
        at = at.getParent();
      }
      java.nio.file.Path real = at.toRealPath();
      for (java.nio.file.Path name : missing) {
        real = real.resolve(name);
      }
      return real;
    }
  }

  private static class Raw extends NakedLocalFileSystem {
    private Access access;

    @Override
    public void initialize(URI uri, Configuration conf) throws IOException {
      super.initialize(uri, conf);
      String home = conf.get("icestream.access.home");
      if (home != null) {
        String inHome = conf.get("icestream.access.in-home", "");
        String allowed = conf.get("icestream.access.allowed", "");
        access = new Access(home, split(inHome), split(allowed));
      }
    }

    private static String[] split(String names) {
      return names.isEmpty() ? new String[0] : names.split("\n");
    }

    private void check(Path path) throws IOException {
      if (access != null) {
        access.check(toNioPath(path));
      }
    }

    @Override
    public FSDataInputStream open(Path path, int bufferSize) throws IOException {
      check(path);
      return super.open(path, bufferSize);
    }

    @Override
    public FileStatus[] listStatus(Path path) throws IOException {
      check(path);
      return super.listStatus(path);
    }

    @Override
    public FSDataOutputStream append(Path path, int bufferSize, Progressable progress)
        throws IOException {
      check(path);
      return super.append(path, bufferSize, progress);
    }

    @Override
    public boolean rename(Path from, Path to) throws IOException {
      check(from);
      check(to);
      // Into a directory that is there already, the file goes below it.
      java.nio.file.Path target = toNioPath(to);
      java.nio.file.Path folder = Files.isDirectory(target) ? target : target.getParent();
      boolean renamed = super.rename(from, to);
      if (renamed) {
        // The new name first: a power failure between the two leaves both, never none.
        syncDirectory(target.getParent());
        if (!folder.equals(target.getParent())) {
          syncDirectory(folder);
        }
        java.nio.file.Path before = toNioPath(from).getParent();
        if (before != null && !before.equals(folder)) {
          syncDirectory(before);
        }
      }
      return renamed;
    }

    @Override
    public boolean delete(Path path, boolean recursive) throws IOException {
      check(path);
      return super.delete(path, recursive);
    }

    @Override
    public FSDataOutputStream createNonRecursive(
        Path path,
        FsPermission permission,
        boolean overwrite,
        int bufferSize,
        short replication,
        long blockSize,
        Progressable progress)
        throws IOException {
      check(path);
      return synced(
          path,
          super.createNonRecursive(
              path, permission, overwrite, bufferSize, replication, blockSize, progress));
    }

    @Override
    public FSDataOutputStream create(
        Path path,
        boolean overwrite,
        int bufferSize,
        short replication,
        long blockSize,
        Progressable progress)
        throws IOException {
      check(path);
      return synced(
          path, super.create(path, overwrite, bufferSize, replication, blockSize, progress));
    }

    @Override
    public FSDataOutputStream create(
        Path path,
        FsPermission permission,
        boolean overwrite,
        int bufferSize,
        short replication,
        long blockSize,
        Progressable progress)
        throws IOException {
      return create(path, overwrite, bufferSize, replication, blockSize, progress);
    }

    private FSDataOutputStream synced(Path path, FSDataOutputStream file) throws IOException {
      java.nio.file.Path parent = toNioPath(path).getParent();
      return new FSDataOutputStream(file, null) {
        private boolean closed;

        @Override
        public void hflush() throws IOException {
          file.hflush();
        }

        @Override
        public void hsync() throws IOException {
          file.hsync();
        }

        @Override
        public void close() throws IOException {
          if (closed) {
            return;
          }
          closed = true;
          try {
            file.hsync();
          } finally {
            file.close();
          }
          syncDirectory(parent);
        }
      };
    }

    @Override
    public boolean mkdirs(Path path) throws IOException {
      check(path);
      java.nio.file.Path directory = toNioPath(path);
      Deque<java.nio.file.Path> missing = new ArrayDeque<>();
      for (java.nio.file.Path at = directory; at != null && !Files.exists(at); at = at.getParent()) {
        missing.push(at);
      }
      boolean made = super.mkdirs(path);
      for (java.nio.file.Path at : missing) {
        syncDirectory(at.getParent());
      }
      return made;
    }

    @Override
    public boolean mkdirs(Path path, FsPermission permission) throws IOException {
      return mkdirs(path);
    }
  }
}
