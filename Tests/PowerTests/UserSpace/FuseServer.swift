#if os(Linux)
  import Foundation
  import Locks

  /// Serves a directory's files to the kernel from a separate thread, and can hold answers.
  ///
  /// It implements linux/fuse.h without a library. Files can be read and written, but not created or removed.
  final class FuseServer: Sendable {
    private struct State {
      var paths: [UInt64: String]
      var nodes: [String: UInt64] = [:]
      var files: Set<Int32> = []
      var held: (kind: FuseRequest.Kind, name: String)?
      var waiting: [FuseRequest] = []
      var holdEnd: ContinuousClock.Instant?
      var hasRunOut = false
      var isStopped = false
    }

    private enum Outcome {
      case answer(FuseAnswer)
      case failure(Int32)
    }

    private let connection: Int32
    private let remembers: Bool
    private let state: Lock<State>
    private let end = DispatchSemaphore(value: 0)
    /// The time after which held answers are sent, so that a failed test does not hang.
    private static let longestHold: Duration = .seconds(60)

    /// - Parameters:
    ///   - connection: The descriptor of /dev/fuse, which the server closes at its end.
    ///   - directory: The directory to serve.
    ///   - remembers: A Boolean value that indicates whether the kernel may cache names, statuses and bytes.
    init(_ connection: Int32, serving directory: String, remembers: Bool) {
      self.connection = connection
      self.remembers = remembers
      state = Lock(State(paths: [1: directory]))
      let thread = Thread { self.run() }
      thread.name = "fuse"
      thread.start()
    }

    /// Ends the connection: the kernel fails all pending and all later requests.
    func stop() {
      state.withLock { $0.isStopped = true }
      end.wait()
    }

    // MARK: - Held answers

    /// Holds the answers to requests of one kind for files of one name, until `letGo` is called.
    func hold(_ kind: FuseRequest.Kind, of name: String) {
      state.withLock {
        $0.held = (kind, name)
        $0.holdEnd = .now + Self.longestHold
      }
    }

    /// The number of requests whose answers are held.
    var heldCount: Int { state.withLock { $0.waiting.count } }

    /// A Boolean value that indicates whether an answer was held until the time limit.
    var hasRunOut: Bool { state.withLock { $0.hasRunOut } }

    func letGo() {
      let waiting = state.withLock { state in
        state.held = nil
        state.holdEnd = nil
        defer { state.waiting = [] }
        return state.waiting
      }
      for request in waiting { answer(request) }
    }

    // MARK: - The thread

    private func run() {
      let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: FuseAnswer.largestWrite + 8192, alignment: 8)
      defer { buffer.deallocate() }
      while !state.withLock({ $0.isStopped }) {
        var event = pollfd(fd: connection, events: Int16(POLLIN), revents: 0)
        // The timeout bounds the time until a stop or an expired hold is noticed.
        let isReady = poll(&event, 1, 10) > 0
        letGoOfWhatRanOut()
        guard isReady else { continue }
        let count = read(connection, buffer.baseAddress, buffer.count)
        if count < 0, errno == ENODEV { break }
        guard count > 0, let request = FuseRequest(UnsafeRawBufferPointer(rebasing: buffer[..<count])) else { continue }
        if !isToWait(request) { answer(request) }
      }
      for file in state.withLock({ $0.files }) { close(file) }
      close(connection)
      end.signal()
    }

    private func letGoOfWhatRanOut() {
      let hasRunOut = state.withLock { state in
        guard let end = state.holdEnd, .now > end, !state.waiting.isEmpty else { return false }
        state.hasRunOut = true
        return true
      }
      if hasRunOut { letGo() }
    }

    private func isToWait(_ request: FuseRequest) -> Bool {
      state.withLock { state in
        guard let held = state.held, held.kind == request.kind else { return false }
        let name =
          request.kind == .lookup
          ? request.name : URL(filePath: state.paths[request.node] ?? "").lastPathComponent
        guard name == held.name else { return false }
        state.waiting.append(request)
        return true
      }
    }

    private func answer(_ request: FuseRequest) {
      let outcome = outcome(of: request)
      guard request.kind?.isAnswered ?? true else { return }
      var whole = FuseAnswer()
      switch outcome {
      case .answer(let answer):
        whole.append(UInt32(16 + answer.body.count))
        whole.append(0 as Int32)
        whole.append(request.number)
        whole.append(answer.body)
      case .failure(let error):
        whole.append(16 as UInt32)
        whole.append(-error)
        whole.append(request.number)
      }
      // The write fails if the caller or the connection has ended.
      _ = whole.body.withUnsafeBytes { write(connection, $0.baseAddress, $0.count) }
    }

    // MARK: - Requests

    private func outcome(of request: FuseRequest) -> Outcome {
      guard let path = path(of: request.node) else { return .failure(ESTALE) }
      switch request.kind {
      case .begin: return .answer(.version)
      case .lookup: return lookup(path + "/" + request.name)
      case .status:
        return Self.status(of: path).map { .answer(.status(request.node, $0, validSeconds: validSeconds)) }
          ?? .failure(errno)
      case .open: return open(path, request)
      case .read:
        let bytes = [UInt8](unsafeUninitializedCapacity: request.byteCount) { buffer, count in
          count = max(pread(request.file, buffer.baseAddress, request.byteCount, request.offset), 0)
        }
        var answer = FuseAnswer()
        answer.append(bytes)
        return .answer(answer)
      case .write:
        let count = request.payload.withUnsafeBytes { pwrite(request.file, $0.baseAddress, $0.count, request.offset) }
        return count < 0 ? .failure(errno) : .answer(.written(count))
      case .release:
        if state.withLock({ $0.files.remove(request.file) }) != nil { close(request.file) }
        return .answer(FuseAnswer())
      case .volumeStatus: return .answer(.volumeStatus)
      case .openDirectory: return .answer(.file(0, keepsPages: false))
      case .readDirectory:
        let names = [".", ".."] + ((try? FileManager.default.contentsOfDirectory(atPath: path)) ?? []).sorted()
        return .answer(.names(names, from: request.offset, byteCount: request.byteCount))
      case .releaseDirectory, .access, .end, .forget, .forgetMany, .interrupt: return .answer(FuseAnswer())
      case nil: return .failure(ENOSYS)
      }
    }

    private var validSeconds: UInt64 { remembers ? 3600 : 0 }

    private func path(of node: UInt64) -> String? {
      // Requests for the whole volume have no node.
      state.withLock { $0.paths[node == 0 ? 1 : node] }
    }

    private static func status(of path: String) -> stat? {
      var status = stat()
      return lstat(path, &status) == 0 ? status : nil
    }

    private func lookup(_ path: String) -> Outcome {
      guard let status = Self.status(of: path) else { return .failure(errno) }
      let node = state.withLock { state in
        if let node = state.nodes[path] { return node }
        let node = UInt64(state.nodes.count + 2)
        state.nodes[path] = node
        state.paths[node] = path
        return node
      }
      return .answer(.entry(node, status, validSeconds: validSeconds))
    }

    private func open(_ path: String, _ request: FuseRequest) -> Outcome {
      let file = Glibc.open(path, request.flags & O_ACCMODE | O_CLOEXEC)
      guard file >= 0 else { return .failure(errno) }
      state.withLock { _ = $0.files.insert(file) }
      return .answer(.file(file, keepsPages: remembers))
    }
  }
#endif
