/* The native methods of Runtime.java. */
#include "driver.h"
#include <jni.h>

JNIEXPORT jint JNICALL Java_Runtime_init(JNIEnv *env, jclass class) { return driver_init(); }

JNIEXPORT jint JNICALL Java_Runtime_enter(JNIEnv *env, jclass class) { return driver_enter(); }

JNIEXPORT jobject JNICALL Java_Runtime_managed(JNIEnv *env, jclass class, jlong bytes) {
    uintptr_t p = driver_managed(bytes);
    return p ? (*env)->NewDirectByteBuffer(env, (void *)p, bytes) : NULL;
}

JNIEXPORT jint JNICALL Java_Runtime_fill(JNIEnv *env, jclass class, jobject memory, jint value) {
    uintptr_t p = (uintptr_t)(*env)->GetDirectBufferAddress(env, memory);
    return driver_fill(p, value, (*env)->GetDirectBufferCapacity(env, memory) / 4);
}
