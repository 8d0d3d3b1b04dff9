import BlobRecord
import Foundation
import RecordVectors
import SystemPackage
import TestSupport
import Testing

@Suite struct VectorTests {
  static let layout = RecordLayout(naming: .encoded, separatesDirectories: true)

  @Test func theManifestIsThere() throws {
    let manifest = try Manifest.load()
    #expect(manifest.version == 1)
    #expect(manifest.naming == "encoded" && manifest.separatesDirectories)
    #expect(!manifest.files.isEmpty && !manifest.names.isEmpty && !manifest.foreignNames.isEmpty)
  }

  @Test func everyErrorThatAFileCanHaveHasAVector() throws {
    let codes = Set(try Manifest.load().files.compactMap(\.code))
    #expect(codes == Set(100...112).subtracting([101, 107, 111]))
  }

  // MARK: Files

  /// - Parameter now: The current time, or `nil` to ignore the age.
  static func judge(
    _ bytes: [UInt8], fileName: String, at now: UnixTime?, defaultExpiration: Int64
  ) throws(RecordError) -> String {
    let judge = now.map { RecordJudge(at: $0, defaultExpiration: defaultExpiration) } ?? RecordJudge()
    let facts = RecordFacts(nameDigest: NameDigest.digest(ofFileName: fileName))
    switch judge.judge(bytes, facts, payload: Array(bytes.dropFirst(RecordHeader.byteCount))) {
    case .sound(let header): return header.isLocked ? "locked" : "live"
    case .expired: return "expired"
    case .broken(let error, _): throw error
    }
  }

  @Test(arguments: Manifest.loaded?.files ?? []) func filesAreJudgedAsTheManifestSays(file: Manifest.File) throws {
    let bytes = try Specification.bytes("vectors/" + file.path)
    let fileName = try #require(file.path.split(separator: "/").last.map(String.init))
    let defaultExpiration = try #require(Manifest.loaded).defaultExpiration
    #expect(bytes.count == file.fileSize)

    let wanted = file.code
    do throws(RecordError) {
      _ = try Self.judge(bytes, fileName: fileName, at: nil, defaultExpiration: defaultExpiration)
      #expect(file.outcome == "ok" && wanted == nil)
    } catch {
      #expect(error.name == file.outcome)
      #expect(error.code == wanted)
    }

    for judgement in file.judgements {
      let now = UnixTime(seconds: judgement.evaluateAt)
      let found = try? Self.judge(bytes, fileName: fileName, at: now, defaultExpiration: defaultExpiration)
      #expect(found ?? "damaged" == judgement.state, "at \(judgement.evaluateAt)")
    }
    #expect(!file.judgements.isEmpty)
  }

  @Test(arguments: Manifest.loaded?.files ?? []) func headersHoldWhatTheManifestSays(file: Manifest.File) throws {
    let bytes = try Specification.bytes("vectors/" + file.path)
    guard let expected = file.header else {
      #expect(bytes.count < RecordHeader.byteCount && file.payloadCRC32 == nil)
      return
    }
    let stored = try StoredHeader(decoding: bytes)
    #expect(hexadecimal(stored.magic) == expected.magic)
    #expect(stored.headerSize == expected.headerSize)
    #expect(stored.refCount == expected.refCount)
    #expect(hexadecimal(stored.reserved1) == expected.reserved1)
    #expect(stored.ttl == expected.ttl)
    #expect(stored.updateTime == expected.updateTime)
    #expect(stored.payloadSize == expected.payloadSize)
    #expect(hexadecimal(stored.reserved2) == expected.reserved2)
    #expect(hexadecimal(stored.reserved3) == expected.reserved3)
    #expect(hexadecimal(stored.reserved4) == expected.reserved4)
    #expect(stored.flags.rawValue == expected.flags)
    #expect(hexadecimal(stored.crc) == expected.crc)

    let payload = Array(bytes.dropFirst(RecordHeader.byteCount))
    let payloadRange = stored.payloadRange(ofBody: payload.count)
    #expect(hexadecimal(CRC32.checksum(of: Array(payload[payloadRange]))) == file.payloadCRC32)
    if let range = stored.tailRange(ofBody: payload.count) {
      let tail = try? RecordExtension(decoding: Array(payload[range]).span.bytes)
      #expect(tail?.key?.string == file.extension?.key)
      #expect(tail.map { String(decoding: $0.data, as: UTF8.self) } == file.extension?.data)
    } else {
      #expect(file.extension == nil)
    }

    // A valid header that is encoded again has the same bytes, including reserved fields.
    if let header = try? stored.validated() {
      #expect(header.encodedBytes == Array(bytes.prefix(RecordHeader.byteCount)))
    }
  }

  @Test(arguments: Manifest.loaded?.files ?? []) func filesLieWhereTheirNamesPlaceThem(file: Manifest.File) throws {
    let components = file.path.split(separator: "/").map(String.init)
    try #require(components.first == "records" && (2...3).contains(components.count))
    let fileName = components[components.count - 1]
    let subdirectory = components.count == 3 ? components[1] : ""

    let path = try Self.layout.path(for: BlobKey(file.key))
    #expect(path.fileName.utf8.elementsEqual(fileName.utf8))
    #expect(path.subdirectory.utf8.elementsEqual(subdirectory.utf8))
    #expect(Self.layout.path(ofFileName: fileName, in: subdirectory) == path)
    #expect(subdirectory.isEmpty || Self.layout.isSubdirectory(subdirectory))
    let isLong = Self.layout.naming.keepsKey(ofFileName: fileName)
    #expect(Self.layout.naming.key(ofFileName: fileName) == (isLong ? nil : BlobKey(file.key)))
  }

  // MARK: Names

  @Test(arguments: Manifest.loaded?.names ?? []) func keysHaveTheNamesOfTheManifest(name: Manifest.Name) throws {
    let naming = try #require(RecordNaming(rawValue: name.naming))
    let layout = RecordLayout(naming: naming)
    do throws(KeyError) {
      let path = try layout.path(for: BlobKey(name.key))
      let fileName = name.fileName ?? ""
      #expect(path.fileName.utf8.elementsEqual(fileName.utf8))
      #expect(path.subdirectory.utf8.elementsEqual((name.subdirectory ?? "?").utf8))
      let spread = try RecordLayout(naming: naming, arrangement: .spread).path(for: BlobKey(name.key))
      #expect(spread.subdirectory == name.spreadSubdirectory)
      #expect(spread.fileName.utf8.elementsEqual(fileName.utf8))
      #expect(hexadecimal(path.digest) == name.digest)
      #expect(path.digest % 4096 == name.stripe)
      #expect(naming.accepts(fileName: fileName))
      #expect(naming.key(ofFileName: fileName) == (naming.keepsKey(ofFileName: fileName) ? nil : BlobKey(name.key)))
    } catch {
      let found =
        switch error {
        case .empty: "empty"
        case .tooLong: "tooLong"
        case .longerThanKept: "longerThanKept"
        case .notVerbatim: "notVerbatim"
        case .notListable: "notListable"
        }
      #expect(found == name.error)
    }
  }

  @Test(arguments: Manifest.loaded?.foreignNames ?? [])
  func foreignNamesBelongToNoKey(name: Manifest.ForeignName) throws {
    let naming = try #require(RecordNaming(rawValue: name.naming))
    #expect(!naming.accepts(fileName: name.fileName))
    #expect(naming.key(ofFileName: name.fileName) == nil)
  }

  // MARK: The set

  /// Returns the sorted paths of the files below a directory.
  static func paths(below directory: String) throws -> [String] {
    try FileManager.default.subpathsOfDirectory(atPath: directory).filter { path in
      var isDirectory: ObjCBool = false
      return FileManager.default.fileExists(atPath: directory + "/" + path, isDirectory: &isDirectory)
        && !isDirectory.boolValue
    }.sorted()
  }

  @Test func makingTheVectorsAnewChangesNothing() throws {
    let checkedIn = Specification.directory.path + "/vectors"
    let temporary = try TemporaryDirectory()
    let fresh = temporary.path.appending("vectors")
    try VectorSet.write(to: fresh)

    let paths = try Self.paths(below: checkedIn)
    #expect(try paths == Self.paths(below: fresh.string))
    let parts = try PackManifest.load().parts.map(\.path)
    let manifests = ["manifest.json", "pack/manifest.json"]
    #expect(try Set(paths) == Set(Manifest.load().files.map(\.path) + parts + manifests))
    for path in paths {
      let bytes = FileManager.default.contents(atPath: fresh.string + "/" + path)
      #expect(try bytes.map(Array.init) == Specification.bytes("vectors/" + path), "\(path)")
    }
  }

  @Test func theVectorsStaySmall() {
    #expect(VectorSet.files().reduce(0) { $0 + $1.bytes.count } < 130_000)
  }

  /// On APFS and HFS+, a checkout would put two names that fold to the same string into one file.
  @Test func noTwoNamesAreAlikeWhenFolded() {
    var spellings: [String: Set<BlobKey>] = [:]
    for (path, _) in VectorSet.files() {
      var folded = ""
      var spelled = ""
      for component in path.split(separator: "/") {
        folded += "/" + component.lowercased().precomposedStringWithCanonicalMapping
        spelled += "/" + component
        spellings[folded, default: []].insert(BlobKey(spelled))
      }
    }
    #expect(spellings.allSatisfy { $0.value.count == 1 })
  }
}
