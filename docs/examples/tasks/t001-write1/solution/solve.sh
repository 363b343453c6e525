#!/bin/bash
set -e
cd /app
echo tomato > item.txt
