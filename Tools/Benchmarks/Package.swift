// swift-tools-version: 6.2
import PackageDescription

/// The peers whose libraries may be installed. `Tools/benchmark peers` passes the installed ones, because a manifest
/// cannot search for libraries.
let peers: [(name: String, condition: String, target: String)] = [
  ("sqlite", "SQLITE", "CSQLite"), ("lmdb", "LMDB", "CLMDB"), ("leveldb", "LEVELDB", "CLevelDB"),
  ("rocksdb", "ROCKSDB", "CRocksDB"),
]
let installedNames = (Context.environment["BLOBCACHE_PEERS"] ?? "").split(separator: " ").map(String.init)
let installedPeers = peers.filter { installedNames.contains($0.name) }

// A separate package, so that dependencies of benchmarks stay out of the product's manifest.
let package = Package(
  name: "Benchmarks",
  platforms: [.macOS(.v15)],
  dependencies: [
    // The name is explicit because the folder of a clone can have any name.
    .package(name: "BlobCache", path: "../..", traits: []),
    .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.0"),
    .package(url: "https://github.com/apple/swift-system", from: "1.8.0"),
  ],
  targets: [
    .executableTarget(
      name: "Benchmarks",
      dependencies: [
        "CRawFiles", "Measuring", "Workbench",
        .product(name: "BlobStore", package: "BlobCache"),
        .product(name: "BlobRecord", package: "BlobCache"),
        .product(name: "ArgumentParser", package: "swift-argument-parser"),
        .product(name: "SystemPackage", package: "swift-system"),
      ]),
    .executableTarget(
      name: "PeerBenchmarks",
      dependencies: [
        "CRawFiles", "Measuring", "Workbench",
        .product(name: "BlobStore", package: "BlobCache"),
        .product(name: "BlobRecord", package: "BlobCache"),
        .product(name: "ArgumentParser", package: "swift-argument-parser"),
        .product(name: "SystemPackage", package: "swift-system"),
      ] + installedPeers.map { .target(name: $0.target) }),
    .executableTarget(
      name: "MemoryBenchmarks",
      dependencies: [
        "CLRU", "Measuring", "ReplacementPolicies",
        .product(name: "MemoryCache", package: "BlobCache"),
        .product(name: "BlobRecord", package: "BlobCache"),
        .product(name: "ArgumentParser", package: "swift-argument-parser"),
      ]),
    .executableTarget(
      name: "HitBenchmarks",
      dependencies: [
        "Measuring", "ReplacementPolicies", "Workbench",
        .product(name: "BlobStore", package: "BlobCache"),
        .product(name: "BlobRecord", package: "BlobCache"),
        .product(name: "ArgumentParser", package: "swift-argument-parser"),
        .product(name: "SystemPackage", package: "swift-system"),
      ]),
    .executableTarget(
      name: "UseBenchmarks",
      dependencies: [
        "CRawFiles", "Measuring", "Workbench",
        .product(name: "BlobCache", package: "BlobCache"),
        .product(name: "BlobStore", package: "BlobCache"),
        .product(name: "BlobRecord", package: "BlobCache"),
        .product(name: "ArgumentParser", package: "swift-argument-parser"),
        .product(name: "SystemPackage", package: "swift-system"),
      ]),
    .executableTarget(
      name: "PackBenchmarks",
      dependencies: [
        "CRawFiles", "Measuring", "Workbench",
        .product(name: "BlobStore", package: "BlobCache"),
        .product(name: "BlobRecord", package: "BlobCache"),
        .product(name: "ArgumentParser", package: "swift-argument-parser"),
        .product(name: "SystemPackage", package: "swift-system"),
      ]),
    .executableTarget(
      name: "FootprintBenchmarks",
      dependencies: [
        "Workbench",
        .product(name: "BlobCache", package: "BlobCache"),
        .product(name: "BlobStore", package: "BlobCache"),
        .product(name: "BlobRecord", package: "BlobCache"),
        .product(name: "ArgumentParser", package: "swift-argument-parser"),
        .product(name: "SystemPackage", package: "swift-system"),
      ]),
    .executableTarget(
      name: "StreamBenchmarks",
      dependencies: [
        "CRawFiles", "Measuring", "Workbench",
        .product(name: "BlobCache", package: "BlobCache"),
        .product(name: "BlobStore", package: "BlobCache"),
        .product(name: "BlobRecord", package: "BlobCache"),
        .product(name: "ArgumentParser", package: "swift-argument-parser"),
        .product(name: "SystemPackage", package: "swift-system"),
      ]),
    .executableTarget(
      name: "CacheBenchmarks",
      dependencies: [
        .product(name: "BlobCache", package: "BlobCache"),
        .product(name: "BlobStore", package: "BlobCache"),
        .product(name: "MemoryCache", package: "BlobCache"),
        .product(name: "ArgumentParser", package: "swift-argument-parser"),
        .product(name: "SystemPackage", package: "swift-system"),
      ]),
    .executableTarget(
      name: "AllocationCounts",
      dependencies: [
        "CAllocationCount",
        .product(name: "BlobStore", package: "BlobCache"),
        .product(name: "BlobRecord", package: "BlobCache"),
        .product(name: "MemoryCache", package: "BlobCache"),
        .product(name: "ArgumentParser", package: "swift-argument-parser"),
        .product(name: "SystemPackage", package: "swift-system"),
      ]),
    .target(name: "CAllocationCount"),
    .target(
      name: "Workbench",
      dependencies: [
        "CRawFiles",
        .product(name: "BlobRecord", package: "BlobCache"),
        .product(name: "SystemPackage", package: "swift-system"),
      ]),
    .target(name: "Measuring"),
    .target(name: "ReplacementPolicies", dependencies: ["Measuring"]),
    .target(name: "CLRU"),
    .target(name: "CRawFiles", linkerSettings: [.linkedLibrary("z")]),
  ] + installedPeers.map { .systemLibrary(name: $0.target) },
  swiftLanguageModes: [.v6],
  cxxLanguageStandard: .cxx20
)

for target in package.targets where !target.name.hasPrefix("C") {
  target.swiftSettings = [
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .treatAllWarnings(as: .error),
  ]
  if target.name == "PeerBenchmarks" {
    target.swiftSettings?.append(contentsOf: installedPeers.map { .define($0.condition) })
  }
}
