#!/bin/bash
set -e
cd /app
echo iron > info.txt
echo gentle > final.txt
echo boat > out.txt
