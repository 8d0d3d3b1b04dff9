// swift-tools-version: 6.2
import PackageDescription

// A separate package for the fuzz targets, so that libFuzzer and its flags do not affect the library's package.
// Tools/fuzz builds and runs it, and passes the path of the toolchain's libFuzzer in the environment.
let runtime = Context.environment["BLOBCACHE_FUZZER_RUNTIME"].map { ["-Xlinker", $0, "-lstdc++", "-lm"] } ?? []

let package = Package(
  name: "Fuzzing",
  platforms: [.macOS(.v15)],
  dependencies: [
    .package(name: "BlobCache", path: "../.."),
    .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.0"),
    .package(url: "https://github.com/apple/swift-system", from: "1.8.0"),
  ],
  targets: [
    .executableTarget(
      name: "FuzzRecord",
      dependencies: [
        "FuzzSupport",
        .product(name: "BlobRecord", package: "BlobCache"),
        .product(name: "BlobStore", package: "BlobCache"),
        .product(name: "SystemPackage", package: "swift-system"),
      ]),
    .executableTarget(
      name: "FuzzPack",
      dependencies: [
        "FuzzSupport",
        .product(name: "BlobRecord", package: "BlobCache"),
        .product(name: "BlobStore", package: "BlobCache"),
        .product(name: "SystemPackage", package: "swift-system"),
      ]),
    .executableTarget(
      name: "FuzzArguments",
      dependencies: [
        "FuzzSupport",
        .product(name: "BlobCacheCommands", package: "BlobCache"),
        .product(name: "ArgumentParser", package: "swift-argument-parser"),
      ]),
    .executableTarget(
      name: "FuzzRequest",
      dependencies: [
        "FuzzSupport",
        .product(name: "BlobCache", package: "BlobCache"),
        .product(name: "BlobCacheServer", package: "BlobCache"),
        .product(name: "BlobRecord", package: "BlobCache"),
        .product(name: "SystemPackage", package: "swift-system"),
      ]),
    .executableTarget(
      name: "FuzzHeader", dependencies: ["FuzzSupport", .product(name: "BlobRecord", package: "BlobCache")]),
    .executableTarget(
      name: "FuzzNames", dependencies: ["FuzzSupport", .product(name: "BlobRecord", package: "BlobCache")]),
    .target(name: "FuzzSupport", dependencies: ["CLibFuzzer"]),
    .target(name: "CLibFuzzer", linkerSettings: [.unsafeFlags(runtime)]),
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
