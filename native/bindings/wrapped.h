// Methods and functions whose C++ exceptions reach JavaScript as toJsError words them: thrown, or
// as a promise's rejection.
#pragma once

#include <napi.h>

#include "bindings/errors.h"

namespace isopro::bindings {

// For functions and methods that return a promise: it is rejected with whatever they throw.
template <typename Function>
Napi::Value promised(Napi::Env env, Function&& function) {
  try {
    return function();
  } catch (...) {
    const auto deferred = Napi::Promise::Deferred::New(env);
    deferred.Reject(toJsError(env, std::current_exception()).Value());
    return deferred.Promise();
  }
}

template <Napi::Value (*body)(const Napi::CallbackInfo&)>
Napi::Value asynchronous(const Napi::CallbackInfo& info) {
  return promised(info.Env(), [&] { return body(info); });
}

template <typename T>
class Wrapped : public Napi::ObjectWrap<T> {
 protected:
  using Napi::ObjectWrap<T>::ObjectWrap;
  using Method = Napi::Value (T::*)(const Napi::CallbackInfo&);

  // For DefineClass.
  template <Method body>
  static Napi::ClassPropertyDescriptor<T> method(const char* name) {
    return Napi::ObjectWrap<T>::InstanceMethod(name,
                                               static_cast<Method>(&Wrapped::template call<body>));
  }
  template <Method body>
  static Napi::ClassPropertyDescriptor<T> asynchronous(const char* name) {
    return Napi::ObjectWrap<T>::InstanceMethod(
        name, static_cast<Method>(&Wrapped::template callAsynchronous<body>));
  }

 private:
  template <Method body>
  Napi::Value call(const Napi::CallbackInfo& info) {
    return guarded(info.Env(), [&] { return (static_cast<T*>(this)->*body)(info); });
  }
  template <Method body>
  Napi::Value callAsynchronous(const Napi::CallbackInfo& info) {
    return promised(info.Env(), [&] { return (static_cast<T*>(this)->*body)(info); });
  }
};

}  // namespace isopro::bindings
