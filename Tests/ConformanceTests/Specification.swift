import Foundation
import TestSupport

/// The folder Spec of the checkout that these tests were built from.
enum Specification {
  static let directory = Checkout.url("Spec")

  /// By path rather than by URL: names with `%` stay what they are.
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
