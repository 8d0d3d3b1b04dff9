import Foundation
import Posix
import Synchronization
import SystemPackage
import TestSupport
import Testing

#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#elseif canImport(Android)
  import Android
#elseif canImport(Darwin)
  import Darwin
#endif

@Suite struct MakeDirectoriesTests {
  let temporary: TemporaryDirectory
  let plan = FaultPlan()

  init() throws {
    temporary = try TemporaryDirectory()
  }

  #if !os(iOS)
    /// This runs in a separate process, because the working directory belongs to the process.
    @Test func aRelativeNameIsMadeInTheWorkingDirectory() async {
      await #expect(processExitsWith: .success) {
        let temporary = try TemporaryDirectory()
        #expect(chdir(temporary.path.string) == 0)
        #expect(try Files().makeDirectories(at: "name", permissions: .ownerReadWriteExecute) == ["."])
        #expect(try temporary.names() == ["name"])
      }
    }
  #endif

  @Test func missingDirectoriesAreMadeAndTheirContainersTold() throws {
    let files = plan.files()
    let path = temporary.path.appending("a").appending("b").appending("c")
    let changed = try files.makeDirectories(at: path, permissions: .ownerReadWriteExecute)
    #expect(changed == [temporary.path, temporary.path.appending("a"), temporary.path.appending("a").appending("b")])
    #expect(try files.makeDirectories(at: path, permissions: .ownerReadWriteExecute) == [])
    let made = try openDirectory(at: path, files)
    #expect(try made.status().permissions.rawValue & 0o777 == 0o700)
  }

  /// Paths can be deep and stacks small, so each directory is created at the same stack depth.
  @Test func theDepthOfAPathTakesNoStack() throws {
    let least = Atomic(Int.max)
    let most = Atomic(0)
    let files = Files { call, _ in
      guard call == .makeDirectory else { return nil }
      let frames = Thread.callStackReturnAddresses.count
      _ = (least.min(frames, ordering: .relaxed), most.max(frames, ordering: .relaxed))
      return nil
    }
    let depth = 20
    let path = FilePath(temporary.path.string + String(repeating: "/d", count: depth))
    #expect(try files.makeDirectories(at: path, permissions: .ownerReadWriteExecute).count == depth)
    let (nearest, farthest) = (least.load(ordering: .relaxed), most.load(ordering: .relaxed))
    #expect(nearest > 0 && farthest - nearest < depth / 2)
  }

  @Test func directoryThatIsThereIsNotMade() throws {
    #expect(try Files().makeDirectories(at: ".", permissions: .ownerReadWriteExecute).isEmpty)
    #expect(try Files().makeDirectories(at: temporary.path, permissions: .ownerReadWriteExecute).isEmpty)
  }

  /// Another process creates the directory or its parent concurrently.
  @Test func directoriesThatOthersMakeMeanwhileAreTaken() throws {
    let path = temporary.path.appending("above").appending("below")
    let files = Files { call, location in
      if call == .makeDirectory, location.path.lastComponent == "above" {
        mkdir(path.removingLastComponent().string, 0o700)
      }
      return nil
    }
    _ = try files.makeDirectories(at: path, permissions: .ownerReadWriteExecute)
    #expect(try Files().status(of: path) != nil)
    let late = temporary.path.appending("one").appending("two")
    let racing = Files { call, location in
      if call == .makeDirectory, location.path.lastComponent == "one" {
        mkdir(late.removingLastComponent().string, 0o700)
        mkdir(late.string, 0o700)
      }
      return nil
    }
    #expect(try racing.makeDirectories(at: late, permissions: .ownerReadWriteExecute).count <= 1)
  }
}
