public import Foundation

/// The checkout from which these tests were built.
public enum Checkout {
  private static let root = (0..<4).reduce(URL(filePath: #filePath)) { url, _ in url.deletingLastPathComponent() }

  /// - Parameter path: A path relative to the checkout, such as `Spec/Performance.md`.
  public static func url(_ path: String) -> URL { root.appending(path: path) }

  public static func text(_ path: String) throws -> String { try String(contentsOf: url(path), encoding: .utf8) }
}
