#!/bin/bash
set -e
cd /app
cat result.txt
echo cotton > data.txt
