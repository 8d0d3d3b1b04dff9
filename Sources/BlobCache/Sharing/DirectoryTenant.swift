internal import BlobStore
internal import Locks
internal import Posix
internal import SystemPackage

/// An engine as the holder of directories: if two engines use one directory, neither may be exclusive.
///
/// A new engine finds another one on its directory by path, and by device and inode. Later, two
/// paths may refer to one directory, so an engine checks again before it uses a new directory at its path.
final class DirectoryTenant: RootHolder {
  let path: FilePath
  let shutdownLatch: ShutdownLatch
  private let isExclusive: Bool
  private let state = Lock(State())

  private struct State {
    weak var store: BlobStore?
    /// Other paths by which caches use the directory.
    var otherPaths: Set<FilePath> = []
  }

  private struct Place: Hashable {
    let directory: FileIdentity
    /// A forked child's stores are separate, and its parent's stores are inactive there.
    let forkCount = CurrentProcess.forkCount
  }

  /// The tenants of each directory, once for each time that they have opened it.
  private static let tenants = Lock<[Place: [DirectoryTenant]]>([:])

  init(path: FilePath, isExclusive: Bool, shutdownLatch: ShutdownLatch) {
    self.path = path
    self.isExclusive = isExclusive
    self.shutdownLatch = shutdownLatch
  }

  func setStore(_ store: BlobStore) { state.withLock { $0.store = store } }

  /// Adds a path of another cache, which must refer to the directory while the engine uses it.
  func share(by path: FilePath) { if path != self.path { state.withLock { _ = $0.otherPaths.insert(path) } } }

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
      // The check makes the other engine release a directory that is no longer at its path.
      other.state.withLock { $0.store }?.checkRoot()
      if let other = enter(place) {
        throw BlobStoreError(
          rootIsTaken:
            "another cache of this process has this directory as \(other.path), and one of both has it to itself",
          path: path)
      }
    }
    return Hold(tenant: self, place: place)
  }

  /// - Returns: The conflicting tenant, or `nil` if this tenant was added.
  private func enter(_ place: Place) -> DirectoryTenant? {
    Self.tenants.withLock { tenants in
      // An earlier engine with the same path does not conflict, because this one waits for it: Semantics.md, A15.
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
  /// The identity of the file at a path, or `nil` if it does not exist or is not accessible.
  init?(at path: FilePath) {
    // The engine that uses the path reports the error.
    guard let status = try? Files().status(of: path) else { return nil }
    self.init(status)
  }
}

/// Indicates whether an engine has finished its work on disk after its last cache was closed.
///
/// The directory's next engine waits for it, because otherwise late writes could replace newer records.
final class ShutdownLatch: Sendable {
  private let isOver = Monitor(false)

  var isFinished: Bool { isOver.wait { .done($0) } }

  func finish() { isOver.change { $0 = true } }

  func wait() { isOver.wait { $0 ? .done(()) : .wait(nil) } }
}
