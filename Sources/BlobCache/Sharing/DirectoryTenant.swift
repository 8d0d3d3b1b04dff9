internal import BlobStore
internal import Locks
internal import Posix
internal import SystemPackage

/// An engine as the holder of directories: of two engines on one directory, neither may be exclusive.
///
/// When an engine is made, another one on its directory is found by path, and by device and inode. Two paths may lead
/// to one directory later. So an engine asks before it uses what it finds at its path.
final class DirectoryTenant: RootHolder {
  let path: FilePath
  let shutdownLatch: ShutdownLatch
  private let isExclusive: Bool
  private let state = Lock(State())

  private struct State {
    weak var store: BlobStore?
    /// Other paths by which caches have the directory.
    var otherPaths: Set<FilePath> = []
  }

  private struct Place: Hashable {
    let directory: FileIdentity
    /// A forked child's stores are its own, and its parent's do nothing there.
    let forkCount = CurrentProcess.forkCount
  }

  /// Those that use a directory, once for each time they have opened it.
  private static let tenants = Lock<[Place: [DirectoryTenant]]>([:])

  /// - Parameter path: canonical.
  init(path: FilePath, isExclusive: Bool, shutdownLatch: ShutdownLatch) {
    self.path = path
    self.isExclusive = isExclusive
    self.shutdownLatch = shutdownLatch
  }

  func setStore(_ store: BlobStore) { state.withLock { $0.store = store } }

  /// Adds a path of another cache, which must lead to the directory while the engine uses it.
  func share(by path: FilePath) { if path != self.path { state.withLock { _ = $0.otherPaths.insert(path) } } }

  /// Whether the engine uses a directory.
  func has(_ directory: FileIdentity) -> Bool {
    Self.tenants.withLock { $0[Place(directory: directory)]?.contains { $0 === self } ?? false }
  }

  // MARK: - Holding

  func hold(_ directory: FileIdentity, at path: FilePath) throws(BlobStoreError) -> any RootHold {
    for other in state.withLock({ $0.otherPaths }) where FileIdentity(at: other) != directory {
      throw BlobStoreError(
        rootIsTaken: "\(other), by which another cache of this process has this directory, leads elsewhere by now",
        path: path)
    }
    let place = Place(directory: directory)
    if let other = enter(place) {
      // It lets go of a directory that is no longer at its path.
      other.state.withLock { $0.store }?.lookAtRoot()
      if let other = enter(place) {
        throw BlobStoreError(
          rootIsTaken:
            "another cache of this process has this directory as \(other.path), and one of both has it to itself",
          path: path)
      }
    }
    return Hold(tenant: self, place: place)
  }

  /// - Returns: the tenant in the way; nil if the directory is now this one's too.
  private func enter(_ place: Place) -> DirectoryTenant? {
    Self.tenants.withLock { tenants in
      // The one before it on its path, it waits for: Semantics.md, A15.
      let other = tenants[place]?.first { other in
        other.path != path && (other.isExclusive || isExclusive) && !other.shutdownLatch.isFinished
      }
      if other == nil { tenants[place, default: []].append(self) }
      return other
    }
  }

  private func leave(_ place: Place) {
    Self.tenants.withLock { tenants in
      guard var left = tenants[place], let index = left.firstIndex(where: { $0 === self }) else { return }
      left.remove(at: index)
      tenants[place] = left.isEmpty ? nil : left
    }
  }

  private final class Hold: RootHold {
    let tenant: DirectoryTenant
    let place: Place

    init(tenant: DirectoryTenant, place: Place) {
      self.tenant = tenant
      self.place = place
    }

    deinit { tenant.leave(place) }
  }
}

extension FileIdentity {
  /// nil if there is nothing at the path, or nothing that may be looked at.
  init?(at path: FilePath) {
    // If it cannot be looked at, the engine that works there reports why.
    guard let status = try? Files().status(of: path) else { return nil }
    self.init(status)
  }
}

/// Whether an engine has finished its work on disk after its last cache was gone.
///
/// The directory's next engine waits for that. Before, its loads would miss staged blobs, and late writes would replace
/// what it stores.
final class ShutdownLatch: Sendable {
  private let isOver = Monitor(false)

  var isFinished: Bool { isOver.wait { .done($0) } }

  func finish() { isOver.change { $0 = true } }

  /// Blocks until it is finished.
  func wait() { isOver.wait { $0 ? .done(()) : .wait(nil) } }
}
