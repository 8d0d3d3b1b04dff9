public import BlobStore

/// An operation of a store that the fault tests run.
public enum FaultOperation: Hashable, Sendable {
  case store(String, PayloadName, locks: BlobStore.LockPolicy = .none)
  /// A store by a writer, in two pieces.
  case storePieces(String, PayloadName, locks: BlobStore.LockPolicy = .none)
  /// A store by a writer that is visible while it writes, in two pieces, with a concurrent follower.
  case storeVisibly(String, PayloadName, locks: BlobStore.LockPolicy = .none)
  /// A store with a limit that the blob almost fills, so that the store starts a collection and waits for its end. All
  /// other records that may be evicted are evicted.
  case storeAtLimit(String, PayloadName)
  case load(String, touching: Bool)
  case touch(String)
  case lock(String)
  case unlock(String, force: Bool = false)
  case remove(String)
  case removeAll(BlobStore.RemovalScope)
  /// A collection. With `evicting`, its limit is below the size of any record, so everything that may be evicted is.
  case collect(evicting: Bool)
  case verify
  /// A load with the policy that moves damaged files to the quarantine.
  case quarantine(String)
}

// MARK: - Command line

extension FaultOperation: CustomStringConvertible {
  /// The command line arguments of the operation.
  public var arguments: [String] {
    switch self {
    case .store(let key, let payload, let locks):
      ["store", key, payload.tag, String(payload.byteCount)]
        + (locks == .none ? [] : [locks.rawValue])
    case .storePieces(let key, let payload, let locks):
      ["storePieces", key, payload.tag, String(payload.byteCount), locks.rawValue]
    case .storeVisibly(let key, let payload, let locks):
      ["storeVisibly", key, payload.tag, String(payload.byteCount), locks.rawValue]
    case .storeAtLimit(let key, let payload): ["storeAtLimit", key, payload.tag, String(payload.byteCount)]
    case .load(let key, let touching): ["load", key] + (touching ? ["touching"] : [])
    case .touch(let key): ["touch", key]
    case .lock(let key): ["lock", key]
    case .unlock(let key, let force): ["unlock", key] + (force ? ["force"] : [])
    case .remove(let key): ["remove", key]
    case .removeAll(let scope): ["removeAll", scope.rawValue]
    case .collect(let evicting): ["collect"] + (evicting ? ["evicting"] : [])
    case .verify: ["verify"]
    case .quarantine(let key): ["quarantine", key]
    }
  }

  public var description: String { arguments.joined(separator: " ") }

  /// - Returns: The operation, or `nil` if the arguments do not describe one.
  public init?(arguments: [String]) {
    guard let verb = arguments.first else { return nil }
    let words = arguments.dropFirst()
    let first = words.first
    switch (verb, first) {
    case ("store", let key?):
      guard words.count >= 3, let byteCount = Int(words[3]) else { return nil }
      let locks = words.count > 3 ? words.last.flatMap(BlobStore.LockPolicy.init) : BlobStore.LockPolicy.none
      guard let locks else { return nil }
      self = .store(key, PayloadName(words[2], byteCount), locks: locks)
    case ("storePieces", let key?), ("storeVisibly", let key?):
      guard words.count == 4, let byteCount = Int(words[3]), let locks = words.last.flatMap(BlobStore.LockPolicy.init)
      else { return nil }
      let payload = PayloadName(words[2], byteCount)
      self =
        verb == "storePieces" ? .storePieces(key, payload, locks: locks) : .storeVisibly(key, payload, locks: locks)
    case ("storeAtLimit", let key?):
      guard words.count == 3, let byteCount = Int(words[3]) else { return nil }
      self = .storeAtLimit(key, PayloadName(words[2], byteCount))
    case ("load", let key?): self = .load(key, touching: words.last == "touching")
    case ("touch", let key?): self = .touch(key)
    case ("lock", let key?): self = .lock(key)
    case ("unlock", let key?): self = .unlock(key, force: words.last == "force")
    case ("remove", let key?): self = .remove(key)
    case ("removeAll", let scope?):
      guard let scope = BlobStore.RemovalScope(rawValue: scope) else { return nil }
      self = .removeAll(scope)
    case ("collect", let option): self = .collect(evicting: option == "evicting")
    case ("verify", nil): self = .verify
    case ("quarantine", let key?): self = .quarantine(key)
    default: return nil
    }
  }
}
