public import Foundation

/// Where programs lie that tests run.
public enum Programs {
  /// One that the build puts beside the tests.
  public static func built(_ name: String) -> URL {
    #if os(macOS)
      // The tests are a bundle there, in a program of the toolchain's.
      let bundle = Bundle.allBundles.first { $0.bundlePath.hasSuffix(".xctest") } ?? Bundle.main
      let products = bundle.bundleURL.deletingLastPathComponent()
    #else
      let products = Bundle.main.bundleURL
    #endif
    return products.appending(path: name)
  }

  /// One of the system's; nil if it is not installed.
  public static func installed(_ name: String) -> String? {
    let directories =
      (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":") + [
        "/usr/sbin", "/sbin", "/usr/bin", "/bin",
      ]
    return directories.map { "\($0)/\(name)" }.first { FileManager.default.isExecutableFile(atPath: $0) }
  }
}
