// swift-tools-version: 6.2
import PackageDescription

// A package of its own, so that what only benchmarks need stays out of the product's manifest.
let package = Package(
  name: "Benchmarks",
  platforms: [.macOS(.v15)],
  dependencies: [
    // Named, because the folder of a clone may be called anything.
    .package(name: "BlobCache", path: "../.."),
    .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.0"),
    .package(url: "https://github.com/apple/swift-system", from: "1.8.0"),
  ],
  targets: [
    .executableTarget(
      name: "Benchmarks",
      dependencies: [
        "CRawFiles", "Measuring",
        .product(name: "BlobStore", package: "BlobCache"),
        .product(name: "BlobRecord", package: "BlobCache"),
        .product(name: "ArgumentParser", package: "swift-argument-parser"),
        .product(name: "SystemPackage", package: "swift-system"),
      ]),
    .executableTarget(
      name: "MemoryBenchmarks",
      dependencies: [
        "CLRU", "Measuring",
        .product(name: "MemoryCache", package: "BlobCache"),
        .product(name: "BlobRecord", package: "BlobCache"),
        .product(name: "ArgumentParser", package: "swift-argument-parser"),
      ]),
    .executableTarget(
      name: "CacheBenchmarks",
      dependencies: [
        .product(name: "BlobCache", package: "BlobCache"),
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
    .target(name: "Measuring"),
    .target(name: "CLRU"),
    .target(name: "CRawFiles", linkerSettings: [.linkedLibrary("z")]),
  ],
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
}
