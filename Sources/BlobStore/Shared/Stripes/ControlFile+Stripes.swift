internal import Posix
internal import Synchronization

// The locks of stripes in shared memory: a word each, which is 0 or the token of the session that holds the stripe.
extension ControlFile {
  /// Takes a stripe, even from a dead process, but never from a living one. The caller holds the stripe's flag.
  ///
  /// The check of the root notices a deleted or moved file within a second. This library voids a file before it
  /// replaces it.
  ///
  /// System calls: none, or `fcntl(2)` if another process has the stripe.
  ///
  /// - Returns: `nil` if the file was voided or overwritten, so its words have no effect and it must be reopened.
  /// - Throws: `Session.Obstacle`; `FileError`.
  func tryTakeWord(of stripe: Int) throws -> Bool? {
    // First, because no session can begin while others lock the bytes of a file that they have found damaged.
    guard hasMagic else { return nil }
    let token = try session.token(in: self)
    do {
      try file.willStep(.takeStripe)
    } catch {
      guard error.errno == .wouldBlock else { throw error }
      return false
    }
    guard try exchangeWord(of: stripe, for: token) else { return isIntact(for: token) ? false : nil }
    // After the exchange, because a process that voids the file clears the magic first, and then reads the words.
    guard isIntact(for: token) else {
      freeWord(of: stripe)
      return nil
    }
    return true
  }

  private func exchangeWord(of stripe: Int, for token: UInt64) throws(FileError) -> Bool {
    let offset = ControlLayout.stripeOffset(stripe)
    // Acquiring, to see everything that the last holder did, and ordered with the following read of the magic.
    let (isTaken, holder) = file.withWord(at: offset, as: UInt64.self) {
      $0.compareExchange(expected: 0, desired: token, ordering: .sequentiallyConsistent)
    }
    if isTaken { return true }
    guard try isLeftover(holder) else { return false }
    return file.withWord(at: offset, as: UInt64.self) {
      $0.compareExchange(expected: holder, desired: token, ordering: .sequentiallyConsistent).exchanged
    }
  }

  /// Returns whether the process of a stripe's token is dead. The caller holds the stripe's flag.
  private func isLeftover(_ holder: UInt64) throws(FileError) -> Bool {
    // The caller's flag shows that no thread of this process holds the stripe, so its own token is a leftover.
    if holder == session.knownToken { return true }
    return try !isAlive(holder)
  }

  /// Frees a stripe, unless the file was overwritten. Releasing, so that the next holder sees all changes.
  func freeWord(of stripe: Int) {
    try? file.willStep(.freeStripe)
    let token = session.knownToken
    file.withWord(at: ControlLayout.stripeOffset(stripe), as: UInt64.self) {
      _ = $0.compareExchange(expected: token, desired: 0, ordering: .releasing)
    }
  }

  /// Takes all stripes, with all flags held. Returns `nil` if another process holds one, or no session can begin.
  func withAllWords<Result>(_ body: () throws -> Result) throws -> Result? {
    let token: UInt64
    do {
      token = try session.token(in: self)
    } catch is Session.Obstacle {
      return nil
    }
    var count = 0
    defer { for stripe in 0..<count { freeWord(of: stripe) } }
    while count < ControlLayout.stripeCount {
      guard try exchangeWord(of: count, for: token) else { return nil }
      count += 1
    }
    return try body()
  }

  /// Returns the token of the living process that holds a stripe.
  func holder(of stripe: Int) throws(FileError) -> UInt64? {
    let holder = file.withWord(at: ControlLayout.stripeOffset(stripe), as: UInt64.self) {
      $0.load(ordering: .acquiring)
    }
    guard holder != 0 else { return nil }
    if holder == session.knownToken { return holder }
    return try isAlive(holder) ? holder : nil
  }

  /// Returns whether the words bind other processes, which they no longer do if the file was overwritten.
  private func isIntact(for token: UInt64) -> Bool {
    func value(at offset: Int) -> UInt64 {
      file.withWord(at: offset, as: UInt64.self) { $0.load(ordering: .sequentiallyConsistent) }
    }
    let slot = ControlLayout.sessionTokenOffset(ControlLayout.sessionNumber(of: token))
    return hasMagic && value(at: ControlLayout.versionOffset) == ControlLayout.version && value(at: slot) == token
  }

  private var hasMagic: Bool {
    file.withWord(at: ControlLayout.magicOffset, as: UInt64.self) { $0.load(ordering: .sequentiallyConsistent) }
      == ControlLayout.magic
  }
}

/// The intent of a change of a packed record, by which the next holder completes it after a crash (Spec/Packs.md).
struct StripeIntent: RawRepresentable, Hashable, Sendable {
  let rawValue: UInt64

  enum Kind: UInt64, Sendable {
    /// The record at the address is written or replaced.
    case record = 1
    /// The record at the address replaces a file, which is then removed.
    case toPack = 2
    /// A file replaces the record at the address, which is then removed.
    case toFile = 3
  }

  init(rawValue: UInt64) { self.rawValue = rawValue }

  init(_ kind: Kind, at address: UInt64) { rawValue = kind.rawValue << 56 | address }

  /// The kind, or `nil` for an unknown number, which announces nothing.
  var kind: Kind? { Kind(rawValue: rawValue >> 56) }

  var address: UInt64 { rawValue & (1 << 56 - 1) }
}
