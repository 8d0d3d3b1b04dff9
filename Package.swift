// swift-tools-version: 6.2
import PackageDescription

let package = Package(
  name: "BlobCache",
  platforms: [.macOS(.v15), .iOS(.v18)],
  products: [
    .executable(name: "blobcache", targets: ["blobcache"]),
    .executable(name: "blobcache-serve", targets: ["blobcache-serve"]),
    .executable(name: "blobcache-remote", targets: ["blobcache-remote"]),
    .library(name: "BlobCacheCommands", targets: ["BlobCacheCommands"]),
    .library(name: "BlobCacheServer", targets: ["BlobCacheServer"]),
    .library(name: "BlobCacheRemote", targets: ["BlobCacheRemote"]),
    .library(name: "BlobCache", targets: ["BlobCache"]),
    .library(name: "BlobStore", targets: ["BlobStore"]),
    .library(name: "MemoryCache", targets: ["MemoryCache"]),
    .library(name: "BlobRecord", targets: ["BlobRecord"]),
  ],
  traits: [
    // What the tool alone needs. An app that uses the libraries says `traits: []`, and none of it is fetched.
    .trait(name: "Tool", description: "The tool blobcache: swift-argument-parser, -configuration, -service-lifecycle."),
    .default(enabledTraits: ["Tool"]),
    // Off by default: a library should not choose what its app links. The app says `traits: ["Metrics"]`.
    .trait(name: "Metrics", description: "BlobCache counts and times what it does by swift-metrics."),
    .trait(name: "Tracing", description: "BlobCache makes spans by swift-distributed-tracing."),
    // Off by default: of all products, few need the packages of a server or of a client.
    .trait(
      name: "Remote",
      description: "BlobCacheRemote speaks to S3, HTTP servers and Valkey, by AsyncHTTPClient and SwiftNIO."),
    .trait(
      name: "Server", description: "blobcache-serve and BlobCacheServer listen, by Hummingbird.",
      enabledTraits: ["Tool", "Remote"]),
  ],
  dependencies: [
    .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.0"),
    // Without its traits: its JSON reader needs all of Foundation, which every start of the tool would pay for.
    .package(url: "https://github.com/apple/swift-configuration", from: "1.4.0", traits: []),
    .package(url: "https://github.com/apple/swift-crypto", from: "4.5.0"),
    .package(url: "https://github.com/apple/swift-distributed-tracing", from: "1.7.0"),
    .package(url: "https://github.com/apple/swift-log", from: "1.16.0"),
    .package(url: "https://github.com/apple/swift-metrics", from: "2.13.0"),
    .package(url: "https://github.com/apple/swift-nio", from: "2.101.0"),
    .package(url: "https://github.com/apple/swift-nio-ssl", from: "2.37.0"),
    .package(url: "https://github.com/apple/swift-system", from: "1.8.0"),
    // Without its traits: they bring all of Foundation.
    .package(url: "https://github.com/hummingbird-project/hummingbird", from: "2.28.0", traits: []),
    .package(url: "https://github.com/swift-server/async-http-client", from: "1.37.0"),
    .package(url: "https://github.com/swift-server/swift-service-lifecycle", from: "2.13.0"),
  ],
  targets: [
    // MARK: Products

    // Top layer first; each depends only on those below it, so this list is the architecture.
    .executableTarget(name: "blobcache", dependencies: ["BlobCacheCommands"], path: "Tools/blobcache/Main"),
    .target(
      name: "BlobCacheCommands",
      dependencies: [
        "Locks", "BlobStore", "BlobRecord", "Posix", "TextFormats",
        .product(name: "ArgumentParser", package: "swift-argument-parser", condition: .when(traits: ["Tool"])),
        .product(name: "Configuration", package: "swift-configuration", condition: .when(traits: ["Tool"])),
        .product(name: "Logging", package: "swift-log"),
        .product(name: "ServiceLifecycle", package: "swift-service-lifecycle", condition: .when(traits: ["Tool"])),
        .product(name: "SystemPackage", package: "swift-system"),
        .product(name: "UnixSignals", package: "swift-service-lifecycle", condition: .when(traits: ["Tool"])),
      ],
      path: "Tools/blobcache",
      exclude: ["Main"]),

    .executableTarget(
      name: "blobcache-serve",
      dependencies: [
        "BlobCacheServer", "BlobCacheRemote", "BlobCacheCommands", "BlobCache", "BlobStore", "Posix", "Locks",
        .product(name: "ArgumentParser", package: "swift-argument-parser", condition: .when(traits: ["Server"])),
        .product(name: "Logging", package: "swift-log"),
        .product(name: "ServiceLifecycle", package: "swift-service-lifecycle", condition: .when(traits: ["Server"])),
        .product(name: "SystemPackage", package: "swift-system"),
        .product(name: "UnixSignals", package: "swift-service-lifecycle", condition: .when(traits: ["Server"])),
      ],
      path: "Tools/blobcache-serve"),

    .executableTarget(
      name: "blobcache-remote",
      dependencies: [
        "BlobCacheRemote", "BlobCacheCommands", "BlobCache", "BlobRecord", "TextFormats",
        .product(name: "ArgumentParser", package: "swift-argument-parser", condition: .when(traits: ["Tool"])),
        .product(name: "SystemPackage", package: "swift-system"),
      ],
      path: "Tools/blobcache-remote"),

    .target(
      name: "BlobCacheServer",
      dependencies: [
        "BlobCache", "BlobStore", "BlobRecord", "Locks", "TextFormats",
        .product(name: "HummingbirdCore", package: "hummingbird", condition: .when(traits: ["Server"])),
        .product(name: "Logging", package: "swift-log"),
        .product(name: "NIOCore", package: "swift-nio", condition: .when(traits: ["Server"])),
        .product(name: "NIOHTTP1", package: "swift-nio", condition: .when(traits: ["Server"])),
        .product(name: "NIOPosix", package: "swift-nio", condition: .when(traits: ["Server"])),
        .product(name: "NIOSSL", package: "swift-nio-ssl", condition: .when(traits: ["Server"])),
        .product(name: "ServiceLifecycle", package: "swift-service-lifecycle", condition: .when(traits: ["Server"])),
        .product(name: "SystemPackage", package: "swift-system"),
        .product(name: "Tracing", package: "swift-distributed-tracing", condition: .when(traits: ["Tracing"])),
      ],
      // Built in: a program that is copied to another place has its pages with it.
      resources: [
        .embedInCode("Viewer/Assets/icon.svg"), .embedInCode("Viewer/Assets/viewer.css"),
        .embedInCode("Viewer/Assets/viewer.js"),
      ]),

    .target(
      name: "BlobCacheRemote",
      dependencies: [
        "BlobCache", "BlobStore", "BlobRecord", "Posix", "Locks", "TextFormats",
        .product(name: "AsyncHTTPClient", package: "async-http-client", condition: .when(traits: ["Remote"])),
        .product(name: "Crypto", package: "swift-crypto", condition: .when(traits: ["Remote"])),
        .product(name: "Logging", package: "swift-log"),
        .product(name: "NIOCore", package: "swift-nio", condition: .when(traits: ["Remote"])),
        .product(name: "NIOFoundationCompat", package: "swift-nio", condition: .when(traits: ["Remote"])),
        .product(name: "NIOHTTP1", package: "swift-nio", condition: .when(traits: ["Remote"])),
        .product(name: "NIOPosix", package: "swift-nio", condition: .when(traits: ["Remote"])),
        .product(name: "NIOSSL", package: "swift-nio-ssl", condition: .when(traits: ["Remote"])),
        .product(name: "SystemPackage", package: "swift-system"),
      ]),

    .target(
      name: "BlobCache",
      dependencies: [
        "MemoryCache", "BlobStore", "BlobRecord", "Posix", "Locks", "TextFormats",
        .product(name: "Logging", package: "swift-log"),
        .product(name: "Metrics", package: "swift-metrics", condition: .when(traits: ["Metrics"])),
        .product(name: "SystemPackage", package: "swift-system"),
        .product(name: "Tracing", package: "swift-distributed-tracing", condition: .when(traits: ["Tracing"])),
      ]),

    .target(
      name: "MemoryCache",
      dependencies: ["Posix", "Locks", .product(name: "SystemPackage", package: "swift-system")]),

    .target(
      name: "BlobStore",
      dependencies: [
        "BlobRecord", "Posix", "Locks",
        .product(name: "Logging", package: "swift-log"),
        .product(name: "SystemPackage", package: "swift-system"),
      ]),

    .target(name: "BlobRecord", dependencies: ["TextFormats", "CBlobRecord", "CZlib"]),

    .target(name: "TextFormats"),

    .target(
      name: "Posix",
      dependencies: ["CPosix", "Locks", .product(name: "SystemPackage", package: "swift-system")]),

    .target(name: "Locks", dependencies: ["CLocks"]),

    // MARK: C

    .target(name: "CLocks"),
    .target(name: "CBlobRecord"),
    .target(name: "CPosix"),
    .systemLibrary(name: "CZlib", pkgConfig: "zlib", providers: [.apt(["zlib1g-dev"]), .brew(["zlib"])]),

    // MARK: Tools and tests

    .executableTarget(
      name: "torture",
      dependencies: [
        "Linearizability", "Randomness", "BlobCache", "BlobStore", "BlobRecord", "Posix", "CPosix", "Locks",
        .product(name: "ArgumentParser", package: "swift-argument-parser", condition: .when(traits: ["Tool"])),
        .product(name: "Logging", package: "swift-log"),
        .product(name: "SystemPackage", package: "swift-system"),
      ],
      path: "Tools/Reliability/torture"),
    .target(name: "Linearizability", path: "Tools/Reliability/Linearizability"),
    .target(name: "Randomness", path: "Tools/Reliability/Randomness"),

    .executableTarget(name: "make-vectors", dependencies: ["RecordVectors"], path: "Tools/Vectors/make-vectors"),
    .target(
      name: "RecordVectors",
      dependencies: ["BlobRecord", .product(name: "SystemPackage", package: "swift-system")],
      path: "Tools/Vectors/RecordVectors"),

    .executableTarget(name: "sanitizer-canary", dependencies: ["Locks"], path: "Tools/Reliability/sanitizer-canary"),
    .executableTarget(name: "crashat", path: "Tools/Reliability/crashat"),
    .executableTarget(name: "blocklog", path: "Tools/Reliability/blocklog"),
    .target(name: "CVolumes", path: "Tools/Reliability/CVolumes"),
    .target(
      name: "CrashStates",
      dependencies: ["Posix", .product(name: "SystemPackage", package: "swift-system")],
      path: "Tools/Reliability/CrashStates"),
    .executableTarget(name: "faultprobe", dependencies: ["FaultOperations"], path: "Tools/Reliability/faultprobe"),
    .target(
      name: "FaultOperations",
      dependencies: [
        "BlobStore", "BlobRecord", "Posix", "Locks",
        .product(name: "Logging", package: "swift-log"),
        .product(name: "SystemPackage", package: "swift-system"),
      ],
      path: "Tools/Reliability/FaultOperations"),

    .target(
      name: "TestSupport",
      dependencies: [
        "Randomness", "BlobStore", "BlobRecord", "Posix", "Locks",
        .product(name: "SystemPackage", package: "swift-system"),
      ],
      path: "Tests/TestSupport"),
    .testTarget(
      name: "ToolTests",
      dependencies: [
        "blobcache", "blobcache-serve", "blobcache-remote", "BlobCacheCommands", "BlobStore", "BlobRecord",
        "TestSupport",
        .product(name: "SystemPackage", package: "swift-system"),
      ],
      exclude: ["Snapshots"]),
    .testTarget(
      name: "ServerTests",
      dependencies: [
        "BlobCacheServer", "BlobCache", "BlobStore", "BlobRecord", "Locks", "TestSupport",
        .product(name: "SystemPackage", package: "swift-system"),
      ]),
    .testTarget(
      name: "BlobCacheTests",
      dependencies: [
        "blobcache", "BlobCache", "MemoryCache", "BlobStore", "BlobRecord", "Posix", "Locks", "TestSupport",
        .product(name: "Logging", package: "swift-log"),
        .product(name: "SystemPackage", package: "swift-system"),
      ]),
    .testTarget(
      name: "BlobStoreTests",
      dependencies: [
        "BlobStore", "BlobRecord", "Posix", "Locks", "TestSupport",
        .product(name: "Logging", package: "swift-log"),
        .product(name: "SystemPackage", package: "swift-system"),
      ]),
    .testTarget(
      name: "PosixTests",
      dependencies: ["Posix", "Locks", "TestSupport", .product(name: "SystemPackage", package: "swift-system")]),
    .testTarget(
      name: "MemoryCacheTests",
      dependencies: [
        "MemoryCache", "Posix", "Locks", "TestSupport", .product(name: "SystemPackage", package: "swift-system"),
      ]),
    .testTarget(name: "LinearizabilityTests", dependencies: ["Linearizability", "TestSupport"]),
    .testTarget(name: "TortureTests", dependencies: ["Posix", "TestSupport"]),
    .testTarget(
      name: "HostileTests",
      dependencies: [
        "BlobStore", "BlobRecord", "Posix", "Locks", "TestSupport",
        .product(name: "Logging", package: "swift-log"),
        .product(name: "SystemPackage", package: "swift-system"),
      ]),
    .testTarget(name: "BlobRecordTests", dependencies: ["BlobRecord", "CZlib", "TestSupport"]),
    .testTarget(name: "TextFormatsTests", dependencies: ["TextFormats"]),
    .testTarget(
      name: "CrashTests",
      dependencies: [
        "BlobRecord", "BlobStore", "FaultOperations", "Locks", "TestSupport", "crashat", "faultprobe",
        .product(name: "SystemPackage", package: "swift-system"),
      ]),
    .testTarget(
      name: "PowerTests",
      dependencies: [
        "BlobCache", "BlobRecord", "BlobStore", "CrashStates", "CVolumes", "FaultOperations", "Locks", "Posix",
        "TestSupport", "blocklog", "faultprobe",
        .product(name: "SystemPackage", package: "swift-system"),
      ]),
    .testTarget(
      name: "ConformanceTests",
      dependencies: [
        "BlobRecord", "BlobStore", "RecordVectors", "TestSupport",
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
  if target.name == "BlobCache" {
    // An async function runs where its caller does, so that a hit in memory leaves no actor.
    target.swiftSettings?.append(.enableUpcomingFeature("NonisolatedNonsendingByDefault"))
  }
}
