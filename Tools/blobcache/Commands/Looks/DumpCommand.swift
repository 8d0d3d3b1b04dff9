internal import ArgumentParser
internal import BlobRecord
internal import BlobStore
internal import Posix
internal import SystemPackage
internal import TextFormats

struct DumpCommand: Subcommand {
  static let configuration = CommandConfiguration(
    commandName: "dump", abstract: "Print the header of records field by field, each with a verdict.",
    discussion: """
      A packed record is shown as the file that it would be. Of a pack, .packs/p-0, the chunks are printed, and the records \
      in them, dead ones too. What lies in a subdirectory of a cache is judged as the cache's program has it. The exit \
      status is 1 if any of the records is damaged, or there is none of a key.
      """)

  static let examples = [
    Example("Every header of a cache, byte by byte", "blobcache dump cache --hex"),
    Example("The same without the bytes, for a program to read", "blobcache dump cache --json"),
  ]

  @Argument(help: ArgumentHelp("Record files, packs, or directories for every record below them.", valueName: "path"))
  var paths: [FilePath]

  @Option(
    parsing: .unconditional,
    help: ArgumentHelp("Of caches' directories, the record of this key alone.", valueName: "key"))
  var key: String?

  @Flag(name: .customLong("hex"), help: "Print the bytes of the header too, by field.")
  var printsBytes = false

  @OptionGroup var options: DirectoryOptions

  func answer(_ output: inout Output) throws -> Answer {
    var answer = Answer.done
    for path in paths {
      do {
        answer.worsen(to: try dump(path, &output))
      } catch {
        // A failure for one path does not affect the others.
        StandardError.report(Self.text(of: error))
        answer = .failed
      }
    }
    return answer
  }

  private func dump(_ path: FilePath, _ output: inout Output) throws -> Answer {
    if let key { return try dump(key, of: path, &output) }
    guard try Files().status(of: path)?.type == .directory else {
      let parent = path.removingLastComponent()
      let place = try CachePlace(of: parent.isEmpty ? "." : parent)
      let store = try options.store(at: place.root)
      if let pack = try store.inspectPack(path) { return try print(pack, store, &output) }
      return print(try store.inspect(path), file: path.string, store, &output)
    }
    let place = try CachePlace(of: path)
    let store = try options.store(at: place.root)
    var answer = Answer.done
    var isEmpty = true
    for entry in try store.records() {
      guard let file = place.relative(entry.file) else {
        if let error = entry.accessError, place.isPart(of: entry.file) { throw error }
        continue
      }
      isEmpty = false
      do {
        if let error = entry.accessError { throw error }
        // `nil` if the record was removed since it was listed.
        let inspection = entry.packed == nil ? try store.inspect(path.appending(file)) : try store.inspect(entry)
        if let inspection { answer.worsen(to: print(inspection, file: file, store, &output)) }
      } catch let error as BlobStoreError where error.errno == .noSuchFileOrDirectory {
        // The file was removed since it was listed.
      } catch {
        StandardError.report(Self.text(of: error))
        answer = .failed
      }
    }
    if isEmpty, !options.quiet { StandardError.report("\(path): no records") }
    return answer
  }

  private func dump(_ key: String, of directory: FilePath, _ output: inout Output) throws -> Answer {
    let store = try options.store(at: directory)
    guard let inspection = try store.inspectRecord(of: BlobKey(key)) else {
      if !options.quiet { StandardError.report("\(key): not found") }
      return .no
    }
    var file = inspection.path
    _ = file.removePrefix(store.directory)
    return print(inspection, file: file.string, store, &output)
  }

  private func print(_ pack: PackInspection, _ store: BlobStore, _ output: inout Output) throws -> Answer {
    let text = PackInspectionText(pack: pack, now: store.configuration.now(), style: output.style)
    var answer: Answer = pack.flaw == nil ? .done : .no
    if options.json { output.line(JSONObject(pack)) } else { text.head.forEach { output.line($0) } }
    for number in 0..<PackInspection.chunkCount {
      guard let chunk = try pack.chunk(number) else { continue }
      if options.json {
        output.line(JSONObject(chunk, of: pack))
        for record in chunk.records { output.line(JSONObject(record)) }
      } else {
        text.lines(of: chunk).forEach { output.line($0) }
      }
      if chunk.records.contains(where: { $0.isDamaged }) { answer = .no }
    }
    if !options.json { output.line("") }
    return answer
  }

  private func print(
    _ inspection: RecordInspection, file: String, _ store: BlobStore, _ output: inout Output
  ) -> Answer {
    if options.json {
      output.line(JSONObject(inspection, file: file))
    } else {
      let text = InspectionText(inspection: inspection, now: store.configuration.now(), style: output.style)
      for line in text.lines(withBytes: printsBytes) { output.line(line) }
    }
    return inspection.damage == nil ? .done : .no
  }
}

extension JSONObject {
  fileprivate init(_ inspection: RecordInspection, file: String) {
    self.init(
      key: inspection.key, file: file, state: inspection.state, header: inspection.storedHeader,
      expiry: inspection.expiry, damage: inspection.damage)
    add(extendedData: inspection.extendedData)
    add("path", inspection.path.string)
    add("fileSize", inspection.fileSize)
    add("payloadKind", inspection.payloadKind.rawValue)
    add(packed: inspection.packed)
    add("fields", RecordField.allCases.compactMap { JSONObject(field: $0, of: inspection) })
  }

  private init?(field: RecordField, of inspection: RecordInspection) {
    guard let header = inspection.storedHeader, let verdict = inspection.verdict(on: field) else { return nil }
    self.init()
    add("name", field.rawValue)
    add("offset", field.offset)
    add("size", field.byteCount)
    // In hexadecimal, because many JSON readers lose precision for integers above 2^53.
    add("value", field.hexadecimal(header))
    switch verdict {
    case .ok: add("verdict", "ok")
    case .unusual: add("verdict", "unusual")
    case .broken(let error):
      add("verdict", "broken")
      add(error)
    }
  }
}
