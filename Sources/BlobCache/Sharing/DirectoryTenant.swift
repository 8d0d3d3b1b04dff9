internal import BlobStore
internal import Locks
internal import Posix
internal import SystemPackage

/// An engine as the one that has directories: of two on one directory, neither may have it to itself.
///
/// When an engine is made, another one that has its directory is found by path, and by device and inode. But paths that led to
/// two directories then, or to none, may lead to one later: so an engine asks before it uses what it finds at its path.
final class DirectoryTenant: RootHolder {
  let path: FilePath
  let departure: Departure
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
  init(path: FilePath, isExclusive: Bool, departure: Departure) {
    self.path = path
    self.isExclusive = isExclusive
    self.departure = departure
  }

  func setStore(_ store: BlobStore) { state.withLock { $0.store = store } }

  /// A cache has the directory by another path, which has to lead there as long as the engine uses it.
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
      // It lets go of what is at its path no longer.
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

  /// - Returns: who is in the way; nil if the directory is this one's too from now on.
  private func enter(_ place: Place) -> DirectoryTenant? {
    Self.tenants.withLock { tenants in
      // The one before it on its path, it waits for: Semantics.md, A15.
      let other = tenants[place]?.first { other in
        other.path != path && (other.isExclusive || isExclusive) && !other.departure.isFinished
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
    // What keeps it from being looked at, who works there reports.
    guard let status = try? Files().status(of: path) else { return nil }
    self.init(status)
  }
}
