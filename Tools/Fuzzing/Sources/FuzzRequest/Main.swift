internal import BlobCache
internal import BlobCacheServer
internal import BlobRecord
internal import Foundation
internal import FuzzSupport
internal import SystemPackage

/// The server answers arbitrary requests with a status other than 500, and with fields without line breaks. A stored
/// blob has the key in the target and is not served with a content type that browsers execute.
@main
struct FuzzRequest {
  private static let server = FuzzRequest()
  private static let blobs = "/v1/blobs/"
  private let cache: BlobCache
  private let responder: BlobResponder

  static func main() {
    FuzzTarget.run { data, count in
      let text = String(decoding: UnsafeBufferPointer(start: data, count: count), as: UTF8.self)
      let done = DispatchSemaphore(value: 0)
      Task.detached {
        await FuzzRequest.server.test(text)
        done.signal()
      }
      done.wait()
      return 0
    }
  }

  private init() {
    let place = ProcessInfo.processInfo.environment["BLOBCACHE_FUZZ_DIRECTORY"] ?? NSTemporaryDirectory()
    var configuration = BlobCache.Configuration()
    configuration.store.durability = .none
    configuration.store.limits.payload = 1000
    configuration.store.limits.collectsOnStore = false
    configuration.store.now = { UnixTime(seconds: 1_700_000_000) }
    do {
      cache = try BlobCache(directory: FilePath(place).appending("requests"), configuration: configuration)
    } catch {
      violated("\(error)")
    }
    responder = BlobResponder(cache: cache)
  }

  /// Parses the method and the target from the first line, then fields, and the body after an empty line.
  private func test(_ text: String) async {
    let parts = text.split(separator: "\n\n", maxSplits: 1, omittingEmptySubsequences: false)
    let lines = parts[0].split(separator: "\n", omittingEmptySubsequences: false)
    let start = lines[0].split(separator: " ", maxSplits: 1, omittingEmptySubsequences: false)
    var request = ServerRequest(method: String(start[0]), target: start.count > 1 ? String(start[1]) : "")
    for line in lines.dropFirst() {
      let pair = line.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
      request.fields.append(String(pair[0]), pair.count > 1 ? pair[1].trimmingCharacters(in: .whitespaces) : "")
    }
    if parts.count > 1 { request.body = .bytes(Data(parts[1].utf8)) }
    let response = await responder.respond(to: request)
    await check(response)
    // The routes of build tools map to different keys.
    if request.method == "PUT", response.status == 201, request.target.hasPrefix(Self.blobs) {
      await checkStored(request)
    }
  }

  private func check(_ response: ServerResponse) async {
    require((200...599).contains(response.status) && response.status != 500, "a status of \(response.status)")
    for field in response.fields.all {
      let isText = (field.name + field.value).utf8.allSatisfy { $0 != 0 && $0 != 0x0A && $0 != 0x0D }
      require(isText, "a field with a line break: \(field.name)")
    }
    do {
      if case .stream(_, let pieces) = response.body { for try await _ in pieces {} }
    } catch {
      violated("a body that breaks off: \(error)")
    }
  }

  /// Checks the stored blob with an independent decoder of percent escapes.
  private func checkStored(_ request: ServerRequest) async {
    let path = String(request.target.prefix { $0 != "?" }.dropFirst(Self.blobs.count))
    let decoded = PlantedBug.active == .keepsEscapes ? path : path.removingPercentEncoding ?? ""
    let key = BlobKey(decoded)
    do {
      require(try await cache.contains(key), "another key than \(decoded.debugDescription) was stored")
      let answer = await responder.respond(to: ServerRequest(method: "GET", target: Self.blobs + path))
      require(answer.status == 200, "what was stored is answered with \(answer.status)")
      let type = (answer.fields["Content-Type"] ?? "").lowercased()
      let isActive = ["script", "css", "html", "xml", "svg", "wasm", "pdf"].contains { type.contains($0) }
      require(!isActive, "an active type: \(type)")
      await check(answer)
      _ = try await cache.remove(key)
    } catch {
      violated("\(error)")
    }
  }
}
