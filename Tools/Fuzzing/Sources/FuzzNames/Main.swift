internal import BlobRecord
internal import FuzzSupport

/// Arbitrary text as a key and as a file name, under every naming: names are safe and map back to their key.
@main
struct FuzzNames {
  static func main() {
    FuzzTarget.run { data, count in
      let bytes = Array(UnsafeBufferPointer(start: data, count: count))
      // Keys are text. Invalid UTF-8 is repaired with U+FFFD, as everywhere in Swift.
      let text = String(decoding: bytes, as: UTF8.self)
      for naming in RecordNaming.allCases {
        for arrangement in RecordArrangement.allCases {
          let layout = RecordLayout(naming: naming, arrangement: arrangement)
          FuzzNames.testKey(text, layout)
          FuzzNames.testFileName(text, layout)
        }
        FuzzNames.testPrefix(bytes, text, RecordLayout(naming: naming))
      }
      return 0
    }
  }

  static func testKey(_ text: String, _ layout: RecordLayout) {
    let key = BlobKey(text)
    let path: RecordPath
    do throws(KeyError) {
      path = try layout.path(for: key)
    } catch {
      checkRefusal(error, text, layout.naming)
      return
    }
    let fileName = PlantedBug.active == .leavesDots ? withoutEscapedDot(path.fileName) : path.fileName
    require(!text.isEmpty)
    checkSafe(fileName)
    require(path.digest == ReferenceChecksum.fnv1a(path.fileName.utf8))
    require(layout.naming.accepts(fileName: path.fileName), "a name is not recognised")
    if let back = layout.naming.key(ofFileName: path.fileName) {
      require(back == key && back.string.utf8.elementsEqual(text.utf8), "a name leads back to another key")
    } else {
      require(layout.naming.keepsKey(ofFileName: path.fileName), "neither a name nor its record tells the key")
    }
    checkPlacement(path, layout)
  }

  static func withoutEscapedDot(_ name: String) -> String {
    name.hasPrefix("%2E") ? "." + name.dropFirst(3) : name
  }

  static func checkRefusal(_ error: KeyError, _ text: String, _ naming: RecordNaming) {
    require(!error.description.isEmpty)
    switch error {
    case .empty: require(text.isEmpty)
    case .tooLong(let byteCount): require(byteCount > 255 && naming == .verbatim)
    case .longerThanKept(let byteCount): require(byteCount > 65_536 && naming == .encoded)
    case .notVerbatim(let byte):
      require(naming == .verbatim && text.utf8.contains(byte) && [0, 0x2E, 0x2F].contains(byte))
    case .notListable: violated("a key is not a prefix")
    }
  }

  /// Checks that the name is a single path component and not a dot file.
  static func checkSafe(_ name: String) {
    let bytes = Array(name.utf8)
    require(!bytes.isEmpty && bytes.count <= 255, "a name of \(bytes.count) bytes")
    require(!bytes.contains(0) && !bytes.contains(UInt8(ascii: "/")), "a name with a separator")
    require(bytes[0] != UInt8(ascii: "."), "a name of a dot file")
  }

  static func checkPlacement(_ path: RecordPath, _ layout: RecordLayout) {
    if path.subdirectory.isEmpty {
      require(path.relative.utf8.elementsEqual(path.fileName.utf8))
      require(layout.arrangement == .flat || layout.arrangement == .prefix && path.fileName.utf16.count < 2)
    } else {
      require(layout.arrangement != .flat)
      checkSafe(path.subdirectory)
      if layout.arrangement == .prefix {
        require(path.fileName.utf8.starts(with: path.subdirectory.utf8))
        require((2...3).contains(path.subdirectory.utf16.count))
      } else {
        require(UInt64(path.subdirectory, radix: 32) == path.digest % 1024 && path.subdirectory.utf8.count == 2)
      }
      require(path.relative.utf8.elementsEqual((path.subdirectory + "/" + path.fileName).utf8))
      require(layout.isSubdirectory(path.subdirectory), "a walk would not enter a record's directory")
    }
    let found = layout.path(ofFileName: path.fileName, in: path.subdirectory)
    require(found == path, "a walk would not find a record where it lies")
    require(layout.path(ofFileName: path.fileName, in: "..") == nil)
  }

  /// Checks that an accepted file name is the name of exactly the key that it decodes to.
  static func testFileName(_ name: String, _ layout: RecordLayout) {
    let isAccepted = layout.naming.accepts(fileName: name)
    if layout.isSubdirectory(name) { checkSafe(name) }
    guard isAccepted else {
      require(layout.naming.key(ofFileName: name) == nil)
      require(layout.path(ofFileName: name, in: layout.subdirectory(ofFileName: name)) == nil)
      return
    }
    checkSafe(name)
    guard let key = layout.naming.key(ofFileName: name) else {
      require(layout.naming.keepsKey(ofFileName: name))
      return
    }
    do throws(KeyError) {
      let again = try layout.naming.fileName(for: key)
      require(again.utf8.elementsEqual(name.utf8), "a name leads to a key of another name")
    } catch {
      violated("the key of a name has no name: \(error)")
    }
  }

  /// Checks that the file names of all keys with a prefix begin with the prefix's file name.
  static func testPrefix(_ bytes: [UInt8], _ text: String, _ layout: RecordLayout) {
    guard let first = bytes.first else { return }
    let scalars = text.unicodeScalars
    let prefix = String(scalars.prefix(Int(first) % (scalars.count + 1)))
    require(BlobKey(text).hasPrefix(prefix))
    guard let fileName = try? layout.naming.fileName(for: BlobKey(text)),
      let beginning = try? layout.naming.fileNamePrefix(forKeyPrefix: prefix)
    else { return }
    require(fileName.utf8.starts(with: beginning.utf8), "a key would not be listed by its prefix")
  }
}
