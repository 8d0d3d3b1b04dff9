#if Server
  internal import SystemPackage

  #if canImport(Darwin)
    internal import Darwin
  #elseif canImport(Glibc)
    internal import Glibc
  #elseif canImport(Musl)
    internal import Musl
  #elseif canImport(Android)
    internal import Android
  #endif

  /// The browser of the user who started the server.
  enum Browser {
    /// Opens an address if the machine has a display.
    ///
    /// Failures are ignored because the address is also printed.
    static func open(_ address: String) {
      #if canImport(Darwin)
        let program = "open"
      #else
        guard isSet("DISPLAY") || isSet("WAYLAND_DISPLAY") else { return }
        let program = "xdg-open"
      #endif
      // The shell exits immediately and leaves the browser to the system. The browser's output is discarded.
      let command = ["/bin/sh", "-c", "\"$0\" \"$1\" >/dev/null 2>&1 </dev/null &", program, address]
      var arguments = command.map { strdup($0) } + [nil]
      defer { for argument in arguments { free(argument) } }
      var process = pid_t()
      guard posix_spawn(&process, command[0], nil, nil, &arguments, environ) == 0 else { return }
      var status: Int32 = 0
      while waitpid(process, &status, 0) < 0, errno == EINTR {}
    }

    private static func isSet(_ variable: String) -> Bool {
      guard let value = getenv(variable) else { return false }
      return value.pointee != 0
    }
  }
#endif
