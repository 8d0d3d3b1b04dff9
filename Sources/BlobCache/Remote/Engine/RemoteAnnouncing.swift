/// A remote engine by which machines tell each other what they have changed.
///
/// Announcements are a help. Some may be lost, or come twice.
public protocol RemoteAnnouncing: RemoteEngine {
  /// Sends a text to all that listen on a channel now.
  ///
  /// - Throws: `RemoteError`.
  func announce(_ text: String, on channel: String) async throws

  /// Listens on a channel. What is announced after the return is received.
  ///
  /// - Returns: the texts, until an error ends them: the connection broke, and some may have been missed.
  /// - Throws: `RemoteError`.
  func announcements(on channel: String) async throws -> any AsyncSequence<String, any Error> & Sendable
}
