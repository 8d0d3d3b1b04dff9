public import Foundation

/// The locations of programs that tests run.
public enum Programs {
  /// Returns the location of a program that is built with the tests.
  public static func built(_ name: String) -> URL {
    #if os(macOS)
      // On macOS, the tests are a bundle that is loaded by a program of the toolchain.
      let bundle = Bundle.allBundles.first { $0.bundlePath.hasSuffix(".xctest") } ?? Bundle.main
      let products = bundle.bundleURL.deletingLastPathComponent()
    #else
      let products = Bundle.main.bundleURL
    #endif
    return products.appending(path: name)
  }

  /// Returns the path of an installed program, or `nil` if it does not exist.
  public static func installed(_ name: String) -> String? {
    let directories =
      (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":") + [
        "/usr/sbin", "/sbin", "/usr/bin", "/bin",
      ]
    return directories.map { "\($0)/\(name)" }.first { FileManager.default.isExecutableFile(atPath: $0) }
  }
}
