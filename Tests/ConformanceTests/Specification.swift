import Foundation
import TestSupport

/// The folder Spec of the checkout that the tests were built from.
enum Specification {
  static let directory = Checkout.url("Spec")

  /// This uses a path instead of a URL, because a URL would decode names with `%`.
  static func bytes(_ path: String) throws -> [UInt8] {
    guard let data = FileManager.default.contents(atPath: directory.path + "/" + path) else {
      throw CocoaError(.fileReadNoSuchFile, userInfo: [NSFilePathErrorKey: path])
    }
    return Array(data)
  }

  static func text(_ path: String) throws -> String {
    String(decoding: try bytes(path), as: UTF8.self)
  }
}
