internal import BlobRecord
internal import Synchronization

/// Listens to what other machines announce, and begins again when the connection breaks.
final class RemoteListener: Sendable {
  private let engine: any RemoteAnnouncing
  private let channel: String
  private let clock: any Clock<Duration>
  /// The pause before the next try, after so many in vain.
  private let pause: @Sendable (Int) -> Duration

  init(
    _ engine: any RemoteAnnouncing, channel: String, clock: any Clock<Duration>,
    pause: @escaping @Sendable (Int) -> Duration
  ) {
    self.engine = engine
    self.channel = channel
    self.clock = clock
    self.pause = pause
  }

  /// Listens until the task is cancelled.
  ///
  /// - Parameters:
  ///   - receive: is called with each text.
  ///   - hasMissed: called when it listens again: what was announced in between is not known.
  ///   - fails: called with what has ended it.
  func run(
    receive: @Sendable (String) async -> Void, hasMissed: @Sendable () -> Void,
    fails: @Sendable (any Error) -> Void
  ) async {
    var failures = 0
    while !Task.isCancelled {
      do {
        let texts = try await engine.announcements(on: channel)
        hasMissed()
        failures = 0
        for try await text in texts { await receive(text) }
      } catch {
        guard !Task.isCancelled else { return }
        fails(error)
      }
      failures += 1
      // The sleep's only error is its cancellation, which ends the loop.
      try? await clock.sleep(for: pause(failures))
    }
  }
}

/// What one machine tells the others: that the engine has another blob of a key, or none.
///
/// As a text: `blobcache1`, who tells it, `put` and the payload's checksum or `remove` and `-`, and the key in Base64.
struct Announcement: Hashable, Sendable {
  let sender: String
  let key: BlobKey
  /// The checksum of the new payload; nil for a removal.
  let checksum: UInt32?

  private static let version = "blobcache1"
  /// A key of 65,536 bytes, and what lies around it.
  private static let longest = 100_000

  var text: String {
    let what = checksum.map { "put \(String($0, radix: 16))" } ?? "remove -"
    return "\(Self.version) \(sender) \(what) \(Data(key.string.utf8).base64EncodedString())"
  }

  init(sender: String, key: BlobKey, checksum: UInt32?) {
    self.sender = sender
    self.key = key
    self.checksum = checksum
  }

  /// - Returns: nil for any other text.
  init?(_ text: String) {
    guard text.utf8.count <= Self.longest else { return nil }
    let parts = text.split(separator: " ", omittingEmptySubsequences: false)
    guard parts.count == 5, parts[0] == Self.version, let key = Data(base64Encoded: String(parts[4])),
      let string = String(validating: key, as: UTF8.self)
    else { return nil }
    switch (parts[2], UInt32(parts[3], radix: 16)) {
    case ("put", let checksum?): self.checksum = checksum
    case ("remove", nil): checksum = nil
    default: return nil
    }
    sender = String(parts[1])
    self.key = BlobKey(string)
  }
}
