#!/bin/bash
set -e
cd /app
cat out.txt
echo quick > total.txt
