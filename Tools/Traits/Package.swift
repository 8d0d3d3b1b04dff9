// swift-tools-version: 6.2
import PackageDescription

// A package that enables the main package's traits, as an app does. No other target builds the code behind them.
let package = Package(
  name: "Traits",
  platforms: [.macOS(.v15)],
  dependencies: [
    // The name is explicit because the folder of a clone can have any name.
    .package(name: "BlobCache", path: "../..", traits: ["Metrics", "Tracing", "Server", "Remote"]),
    .package(url: "https://github.com/apple/swift-distributed-tracing", from: "1.7.0"),
    .package(url: "https://github.com/apple/swift-log", from: "1.16.0"),
    .package(url: "https://github.com/apple/swift-metrics", from: "2.13.0"),
    .package(url: "https://github.com/apple/swift-nio", from: "2.101.0"),
    .package(url: "https://github.com/apple/swift-system", from: "1.8.0"),
  ],
  targets: [
    .testTarget(
      name: "TraitTests",
      dependencies: [
        .product(name: "BlobCache", package: "BlobCache"),
        .product(name: "BlobCacheServer", package: "BlobCache"),
        .product(name: "InMemoryTracing", package: "swift-distributed-tracing"),
        .product(name: "Metrics", package: "swift-metrics"),
        .product(name: "MetricsTestKit", package: "swift-metrics"),
        .product(name: "SystemPackage", package: "swift-system"),
        .product(name: "Tracing", package: "swift-distributed-tracing"),
      ]),
    .executableTarget(
      name: "RemoteBenchmarks",
      dependencies: [.product(name: "BlobCacheRemote", package: "BlobCache")],
      path: "Benchmarks/RemoteBenchmarks"),
    // Tests of engines against real servers, and of caches of several machines that share an engine.
    .testTarget(
      name: "RemoteProcessTests",
      dependencies: [
        .product(name: "BlobCache", package: "BlobCache"),
        .product(name: "BlobCacheRemote", package: "BlobCache"),
        .product(name: "BlobStore", package: "BlobCache"),
        .product(name: "Logging", package: "swift-log"),
        .product(name: "NIOCore", package: "swift-nio"),
        .product(name: "SystemPackage", package: "swift-system"),
        .product(name: "blobcache", package: "BlobCache"),
        .product(name: "blobcache-remote", package: "BlobCache"),
        .product(name: "blobcache-serve", package: "BlobCache"),
      ]),
    // Tests of the server as a process: its transport, and the state of its directory.
    .testTarget(
      name: "ServerProcessTests",
      dependencies: [
        .product(name: "BlobCache", package: "BlobCache"),
        .product(name: "BlobCacheServer", package: "BlobCache"),
        .product(name: "BlobStore", package: "BlobCache"),
        .product(name: "Logging", package: "swift-log"),
        .product(name: "SystemPackage", package: "swift-system"),
        .product(name: "blobcache-serve", package: "BlobCache"),
      ]),
  ],
  swiftLanguageModes: [.v6]
)

for target in package.targets {
  target.swiftSettings = [
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .treatAllWarnings(as: .error),
  ]
}
