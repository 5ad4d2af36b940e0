#include "bindings/model_file.h"

#include <utility>

#include "bindings/adapter_file.h"
#include "bindings/call.h"
#include "bindings/conversion.h"
#include "bindings/wrapped.h"
#include "support/error.h"

namespace isopro::bindings {
namespace {

struct ModelFileSession {
  explicit ModelFileSession(Environment& environment) : thread(environment) {}

  ModelFileSlot file = std::make_shared<std::unique_ptr<training::ModelFile>>();
  JobThread thread;  // last: stops before the file is destroyed

  training::ModelFile& ready() const {
    if (*file == nullptr)
      throw Error(ErrorCode::objectDisposed, "the model file has been disposed");
    return **file;
  }
};

class NativeModelFile : public Wrapped<NativeModelFile> {
 public:
  static Napi::Function define(Napi::Env env) {
    return DefineClass(env, "NativeModelFile",
                       {
                           asynchronous<&NativeModelFile::merge>("merge"),
                           asynchronous<&NativeModelFile::describe>("describe"),
                           asynchronous<&NativeModelFile::next>("next"),
                           asynchronous<&NativeModelFile::dispose>("dispose"),
                       });
  }

  explicit NativeModelFile(const Napi::CallbackInfo& info)
      : Wrapped(info), session_(guarded(info.Env(), [&] {
          return std::make_unique<ModelFileSession>(Environment::of(info.Env()));
        })) {}

  const ModelFileSlot& slot() const { return session_->file; }

 private:
  template <typename Work>
  Napi::Value start(const Napi::CallbackInfo& info, Work work) {
    return runAsync(
        session_->thread, info.This(), info.Env().Undefined(), never(),
        [&session = *session_, work = std::move(work)](
            Call&, const std::atomic<bool>&) mutable -> MakeValue { return work(session); });
  }

  // merge(modelPath, modules, type): Promise<void>
  Napi::Value merge(const Napi::CallbackInfo& info) {
    return start(info, [model = textOf(info[0]), modules = modulesOf(info[1]),
                        type = textOf(info[2])](ModelFileSession& session) mutable {
      *session.file = training::mergedModel(model, std::move(modules), type);
      return undefined();
    });
  }

  // describe(): Promise<{bytes, types: {[type]: number}}>
  Napi::Value describe(const Napi::CallbackInfo& info) {
    return start(info, [](ModelFileSession& session) {
      return MakeValue(
          [bytes = session.ready().size(), types = session.ready().types()](Napi::Env env) {
            Napi::Object object = Napi::Object::New(env);
            object.Set("bytes", static_cast<double>(bytes));
            Napi::Object counts = Napi::Object::New(env);
            for (const auto& [type, count] : types) counts.Set(type, static_cast<double>(count));
            object.Set("types", counts);
            return object;
          });
    });
  }

  // next(): Promise<Buffer | null>, null at the end of the file
  Napi::Value next(const Napi::CallbackInfo& info) {
    return start(info, [](ModelFileSession& session) {
      auto bytes = std::make_shared<std::vector<std::uint8_t>>(session.ready().next());
      return MakeValue(
          [bytes](Napi::Env env) { return bytes->empty() ? env.Null() : fromBytes(env, bytes); });
    });
  }

  // dispose(): Promise<void>
  Napi::Value dispose(const Napi::CallbackInfo& info) {
    return start(info, [](ModelFileSession& session) {
      session.file->reset();
      return undefined();
    });
  }

  const std::unique_ptr<ModelFileSession> session_;
};

}  // namespace

ModelFileSlot modelFileOf(const Napi::Value& value) {
  return NativeModelFile::Unwrap(value.As<Napi::Object>())->slot();
}

void exportModelFile(Napi::Env env, Napi::Object exports) {
  exports.Set("NativeModelFile", NativeModelFile::define(env));
}

}  // namespace isopro::bindings
