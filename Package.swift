// swift-tools-version: 6.2
import PackageDescription

// Targets are listed top layer first; each depends only on those below it, so this list is the architecture.
let package = Package(
  name: "BlobCache",
  platforms: [.macOS(.v15), .iOS(.v18)],
  products: [
    .executable(name: "blobcache", targets: ["blobcache"]),
    .library(name: "BlobStore", targets: ["BlobStore"]),
    .library(name: "BlobRecord", targets: ["BlobRecord"]),
  ],
  dependencies: [
    .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.0"),
    .package(url: "https://github.com/apple/swift-crypto", from: "4.5.0"),
    .package(url: "https://github.com/apple/swift-log", from: "1.16.0"),
    .package(url: "https://github.com/apple/swift-system", from: "1.8.0"),
  ],
  targets: [
    .executableTarget(
      name: "blobcache",
      dependencies: [
        "BlobStore", "BlobRecord", "PosixFiles",
        .product(name: "ArgumentParser", package: "swift-argument-parser"),
        .product(name: "Logging", package: "swift-log"),
        .product(name: "SystemPackage", package: "swift-system"),
      ],
      path: "Tools/blobcache"),

    .executableTarget(
      name: "torture",
      dependencies: [
        "Linearizability", "BlobStore", "BlobRecord", "CBlobRecord",
        .product(name: "ArgumentParser", package: "swift-argument-parser"),
        .product(name: "Logging", package: "swift-log"),
        .product(name: "SystemPackage", package: "swift-system"),
      ],
      path: "Tools/torture"),
    .target(name: "Linearizability", path: "Tools/Linearizability"),

    .executableTarget(name: "make-vectors", dependencies: ["RecordVectors"], path: "Tools/make-vectors"),
    .target(
      name: "RecordVectors",
      dependencies: ["BlobRecord", .product(name: "SystemPackage", package: "swift-system")],
      path: "Tools/RecordVectors"),

    .executableTarget(name: "crashat", path: "Tools/crashat"),
    .executableTarget(name: "faultprobe", dependencies: ["FaultOperations"], path: "Tools/faultprobe"),
    .target(
      name: "FaultOperations",
      dependencies: [
        "BlobStore", "BlobRecord",
        .product(name: "Logging", package: "swift-log"),
        .product(name: "SystemPackage", package: "swift-system"),
      ],
      path: "Tools/FaultOperations"),

    .target(
      name: "BlobStore",
      dependencies: [
        "BlobRecord", "PosixFiles",
        .product(name: "Logging", package: "swift-log"),
        .product(name: "SystemPackage", package: "swift-system"),
      ]),

    .target(
      name: "BlobRecord",
      dependencies: ["CBlobRecord", "CZlib", .product(name: "Crypto", package: "swift-crypto")]),

    .target(
      name: "PosixFiles",
      dependencies: ["CBlobRecord", .product(name: "SystemPackage", package: "swift-system")]),

    .target(name: "CBlobRecord"),
    .systemLibrary(name: "CZlib", pkgConfig: "zlib", providers: [.apt(["zlib1g-dev"]), .brew(["zlib"])]),

    .target(
      name: "TestSupport",
      dependencies: [
        "BlobStore", "BlobRecord", "PosixFiles", .product(name: "SystemPackage", package: "swift-system"),
      ],
      path: "Tests/TestSupport"),
    .testTarget(
      name: "ToolTests",
      dependencies: ["blobcache", "TestSupport", .product(name: "SystemPackage", package: "swift-system")],
      exclude: ["Snapshots"]),
    .testTarget(
      name: "BlobStoreTests",
      dependencies: [
        "BlobStore", "BlobRecord", "PosixFiles", "TestSupport",
        .product(name: "Logging", package: "swift-log"),
        .product(name: "SystemPackage", package: "swift-system"),
      ]),
    .testTarget(
      name: "PosixFilesTests",
      dependencies: ["PosixFiles", "TestSupport", .product(name: "SystemPackage", package: "swift-system")]),
    .testTarget(name: "LinearizabilityTests", dependencies: ["Linearizability", "TestSupport"]),
    .testTarget(name: "TortureTests", dependencies: ["TestSupport"]),
    .testTarget(
      name: "HostileTests",
      dependencies: [
        "BlobStore", "BlobRecord", "PosixFiles", "TestSupport",
        .product(name: "Logging", package: "swift-log"),
        .product(name: "SystemPackage", package: "swift-system"),
      ]),
    .testTarget(name: "BlobRecordTests", dependencies: ["BlobRecord", "CZlib", "TestSupport"]),
    .testTarget(
      name: "CrashTests",
      dependencies: [
        "BlobRecord", "BlobStore", "FaultOperations", "TestSupport", "crashat", "faultprobe",
        .product(name: "SystemPackage", package: "swift-system"),
      ]),
    .testTarget(
      name: "ConformanceTests",
      dependencies: [
        "BlobRecord", "BlobStore", "RecordVectors", "TestSupport",
        .product(name: "Crypto", package: "swift-crypto"),
        .product(name: "SystemPackage", package: "swift-system"),
      ]),
  ],
  swiftLanguageModes: [.v6]
)

for target in package.targets where target.type != .system {
  target.swiftSettings = [
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .treatAllWarnings(as: .error),
  ]
  if target.type == .regular, target.path == nil {
    target.swiftSettings?.append(.strictMemorySafety())
  }
}
